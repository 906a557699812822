package check

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// clockSlack is the maximum difference between the clocks of the database and the history.
const clockSlack = 100 * time.Millisecond

// generation is the period of a cursor from one move to the next. Each generation has a separate reader, which begins
// at the target of the move. Settlements of earlier generations do not count.
type generation struct {
	Move
	nth int
	// last means that no other generation followed. live means that the group was not deleted since.
	last, live bool
	// skip has the ordinals that the move skipped.
	skip map[int]bool
	// ended is the earliest possible begin of the next generation.
	ended time.Duration
	// alone means that no other move happened within twice clockSlack.
	alone bool
}

// addGenerations adds a reader for each generation of each cursor that was moved.
func (x *index) addGenerations() {
	type cursorID struct {
		readerName
		groupID int64
	}
	moves := map[readerName][]Move{}
	var names []readerName
	for _, m := range x.state.Moves {
		name := readerName{m.Queue, m.Partition, m.Group}
		if moves[name] == nil {
			names = append(names, name)
		}
		moves[name] = append(moves[name], m)
	}
	readers := map[cursorID][]*reader{}
	for _, name := range names {
		l := x.laneByName[laneName{name.queue, name.partition}]
		if l == nil || !slices.ContainsFunc(moves[name][1:], func(m Move) bool { return m.How != Fell }) {
			continue
		}
		last := l.detachReader(name.group)
		var before *reader
		for _, m := range moves[name] {
			if m.How == Fell && before != nil { // the generation continues; the rule cursor reports this move
				readers[cursorID{name, m.GroupID}] = append(readers[cursorID{name, m.GroupID}], before)
				continue
			}
			r := x.generation(l, m)
			if before != nil && r != before {
				before.endWith(r)
			}
			readers[cursorID{name, m.GroupID}] = append(readers[cursorID{name, m.GroupID}], r)
			before = r
		}
		x.setFinalCursor(l.generations[name.group], last)
	}
	for _, t := range x.state.LeasePeriods {
		if of := readers[cursorID{readerName{t.Queue, t.Partition, t.Group}, t.GroupID}]; t.Moves > 0 && t.Moves <= len(of) {
			x.laneByName[laneName{t.Queue, t.Partition}].byLease[t.LeaseID] = of[t.Moves-1]
		}
	}
}

// detachReader removes the reader of a group that has generations. It returns the cursor of the reader.
func (l *lane) detachReader(group string) *Cursor {
	r := l.readerByGroup[group]
	if r == nil {
		return nil
	}
	delete(l.readerByGroup, group)
	l.readers = slices.DeleteFunc(l.readers, func(other *reader) bool { return other == r })
	r.group.readers = slices.DeleteFunc(r.group.readers, func(other *reader) bool { return other == r })
	return r.cursor
}

func (x *index) generation(l *lane, m Move) *reader {
	if l.generations == nil {
		l.generations = map[string][]*reader{}
	}
	n := len(l.generations[m.Group])
	r := &reader{
		lane: l, group: x.group(l.queue, m.Group),
		gen: &generation{Move: m, nth: n, last: true, skip: map[int]bool{}, ended: forever, alone: true},
	}
	for _, seq := range m.Skip {
		r.gen.skip[l.upto(seq)] = true
	}
	l.readers = append(l.readers, r)
	l.generations[m.Group] = append(l.generations[m.Group], r)
	r.group.readers = append(r.group.readers, r)
	return r
}

// endWith ends a generation at the begin of the next one.
func (r *reader) endWith(next *reader) {
	r.gen.last, r.gen.ended = false, next.gen.At-clockSlack
	if next.gen.At-r.gen.At < 2*clockSlack {
		r.gen.alone, next.gen.alone = false, false
	}
	if next.gen.How == Sought {
		r.cursor = &Cursor{Group: r.gen.Group, Committed: next.gen.From}
	}
}

// setFinalCursor sets the final cursor of the last generation. Earlier generations of the same group get the dead
// letters of this cursor.
func (x *index) setFinalCursor(lives []*reader, last *Cursor) {
	if last == nil {
		return
	}
	end := lives[len(lives)-1]
	end.cursor = last
	for _, r := range lives {
		if r.gen.live = r.gen.GroupID == end.gen.GroupID; r.gen.live && r.cursor != nil {
			r.cursor.Dead = last.Dead
		}
	}
}

// upto returns the ordinal of the last message at or before a seq.
func (l *lane) upto(seq int64) int {
	return sort.Search(len(l.log), func(i int) bool { return l.log[i].seq > seq })
}

// readerOf returns the reader of an operation with a lease. It returns nil if the generation is unknown, because the
// database lost the lease in a crash.
func (x *index) readerOf(l *lane, op *history.Operation) *reader {
	if l.generations[op.Group] != nil {
		return l.byLease[op.LeaseID]
	}
	return x.reader(l.queue, l.partition, op.Group)
}

// start returns the ordinal before the first message of the reader. ok is false if it is unknown.
func (r *reader) start() (ordinal int, ok bool) {
	switch {
	case r.gen != nil:
		return r.lane.upto(r.gen.To), true
	case r.cursor != nil && r.cursor.FromStart:
		return 0, true
	}
	return 0, false
}

// dead returns the seqs of the dead letters. For a generation, it returns only the seqs that the generation skips.
func (r *reader) dead() map[int64]bool {
	listed := map[int64]bool{}
	for _, seq := range r.cursor.Dead {
		listed[seq] = true
	}
	if r.gen == nil {
		return listed
	}
	dead := map[int64]bool{}
	for _, seq := range r.gen.Skip {
		dead[seq] = true
	}
	for ordinal := range r.deadLetteredFrom() {
		if seq := r.lane.log[ordinal-1].seq; listed[seq] || !r.gen.live {
			dead[seq] = true
		}
	}
	return dead
}

// begun returns the latest possible begin of a generation. forever means unknown.
func (r *reader) begun() time.Duration {
	begun := forever
	switch {
	case r.gen == nil:
		return 0
	case r.gen.How == Sought && r.gen.alone:
		for _, op := range r.group.resets {
			if op.Kind == history.Seek && op.Outcome == history.Done && r.lane.concerns(op) &&
				op.Begin-clockSlack <= r.gen.At && r.gen.At <= op.End+clockSlack {
				begun = min(begun, op.End)
			}
		}
	}
	for _, d := range r.deliveries {
		begun = min(begun, d.op.End)
	}
	return begun
}

// String returns the name of the generation in messages.
func (g *generation) String() string {
	return fmt.Sprintf("generation %d, %s at %d", g.nth, g.How, g.To)
}
