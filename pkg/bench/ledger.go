package bench

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// ref names a message: its lane and its number there, from 0.
type ref struct{ lane, n int }

// known is what is known of a push.
type known uint8

const (
	// unanswered: it is under way.
	unanswered known = iota
	stored
	refused
	// unclear: the answer was lost, or was an error of the server's.
	unclear
)

// fate is what became of a message in a group.
type fate uint8

const (
	waiting fate = iota
	leased
	// done: acknowledged, or taken with autoAck.
	done
	// loose: its ack was refused or not answered, so it may come again.
	loose
)

// early is a delivery whose push was not answered yet.
type early struct {
	n  int
	at time.Time
}

// lane is what one producer pushed to one partition.
type lane struct {
	known          []known
	sent, answered []time.Time
	early          []early
	places         []place
}

// place is where a group is in a lane.
type place struct {
	fates []fate
	// last is the number of the last message that came for the first time, -1
	// before.
	last int
	// until is when the lease of the last delivery ends, at the earliest.
	until time.Time
	// answer is the last pop with messages of the lane; within is the last
	// number in it.
	answer, within int
}

// ledger holds what was pushed against what was popped. It is safe for
// concurrent use.
type ledger struct {
	partitions, groups int
	lease              time.Duration
	meter              *meter
	// timed: deliveries are measured. It is set before the first push.
	timed bool

	mu    sync.Mutex
	lanes []lane
	// due counts messages stored and not delivered, for each group; underway
	// counts messages of pushes not answered.
	due, underway int
	// answers counts pops with messages.
	answers int
	// changed closes when something above has changed; nil when nobody waits.
	changed chan struct{}
	// count is what has been found so far.
	count Count
}

// newLedger: lanes are dealt to partitions in turn.
func newLedger(lanes, partitions, groups int, lease time.Duration, m *meter) *ledger {
	l := &ledger{partitions: partitions, groups: groups, lease: lease, meter: m, lanes: make([]lane, lanes)}
	for i := range l.lanes {
		l.lanes[i].places = make([]place, groups)
		for g := range l.lanes[i].places {
			l.lanes[i].places[g].last = -1
		}
	}
	return l
}

// change wakes who waits; l.mu is held.
func (l *ledger) change() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// begin numbers a message of each of these lanes, in order, for a push that
// starts now.
func (l *ledger) begin(refs []ref, lanes []int, start time.Time) []ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range lanes {
		ln := &l.lanes[at]
		refs = append(refs, ref{at, len(ln.known)})
		ln.known = append(ln.known, unanswered)
		ln.sent = append(ln.sent, start)
		ln.answered = append(ln.answered, time.Time{})
		for g := range ln.places {
			ln.places[g].fates = append(ln.places[g].fates, waiting)
		}
	}
	l.underway += len(lanes)
	return refs
}

// stored notes that a push was answered.
func (l *ledger) stored(refs []ref, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refs {
		ln := &l.lanes[r.lane]
		ln.known[r.n], ln.answered[r.n] = stored, at
		for g := range ln.places {
			if ln.places[g].fates[r.n] == waiting {
				l.due++
			}
		}
		rest := ln.early[:0]
		for _, e := range ln.early {
			if e.n != r.n {
				rest = append(rest, e)
				continue
			}
			l.time(timeFromAnswer, ln.sent[r.n], at, e.at)
		}
		ln.early = rest
	}
	l.count.Pushed += len(refs)
	l.underway -= len(refs)
	l.change()
}

// failed notes that a push was refused, or that nobody knows.
func (l *ledger) failed(refs []ref, what known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refs {
		ln := &l.lanes[r.lane]
		ln.known[r.n] = what
		if what == refused {
			for g := range ln.places {
				if ln.places[g].fates[r.n] != waiting {
					l.count.Unexpected++
				}
			}
		}
	}
	if what == refused {
		l.count.Refused += len(refs)
	} else {
		l.count.Unclear += len(refs)
	}
	l.underway -= len(refs)
	l.change()
}

// took notes a delivery, before it is acknowledged. own is the last number of
// each lane at this consumer: with autoAck only that order is known. It is nil
// with leases.
func (l *ledger) took(group int, d *delivery, own map[int]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	for i := range d.Messages {
		m := &d.Messages[i]
		at, n := m.Data.Lane-1, m.Data.N-1
		if at < 0 || at >= len(l.lanes) || n < 0 || n >= len(l.lanes[at].known) ||
			m.Partition != "p"+strconv.Itoa(at%l.partitions) {
			l.count.Unexpected++
			continue
		}
		l.came(group, ref{at, n}, d, own)
	}
	if own == nil {
		l.leasedUntil(group, d)
	}
	l.change()
}

// came judges one message of a delivery; l.mu is held.
func (l *ledger) came(group int, r ref, d *delivery, own map[int]int) {
	ln := &l.lanes[r.lane]
	p := &ln.places[group]
	if again := p.answer == l.answers; again && r.n == p.within {
		l.count.Duplicates++
		return
	} else if again && r.n < p.within {
		l.count.Disordered++
		return
	}
	p.answer, p.within = l.answers, r.n
	if p.fates[r.n] != waiting {
		if p.fates[r.n] == done || p.fates[r.n] == leased && d.at.Before(p.until) {
			l.count.Duplicates++
		} else {
			l.count.Redelivered++
			p.fates[r.n] = leased
		}
		return
	}
	p.fates[r.n] = leased
	if own != nil {
		p.fates[r.n] = done
	}
	l.count.Delivered++
	l.ordered(p, r, ln.known[r.n], own)
	l.time(timeFromStart, ln.sent[r.n], ln.sent[r.n], d.at)
	switch ln.known[r.n] {
	case stored:
		l.due--
		l.time(timeFromAnswer, ln.sent[r.n], ln.answered[r.n], d.at)
	case unanswered:
		ln.early = append(ln.early, early{r.n, d.at})
	case refused:
		l.count.Unexpected++
	case unclear:
	}
}

// time adds the time of a delivery whose push began then.
func (l *ledger) time(name string, began, start, end time.Time) {
	if l.timed {
		l.meter.time(name, began, start, end)
	}
}

// ordered judges the place of a message that came for the first time. A push
// whose answer was lost may have been stored at any later time.
func (l *ledger) ordered(p *place, r ref, what known, own map[int]int) {
	if what == unclear {
		return
	}
	last := p.last
	if own != nil {
		var ok bool
		if last, ok = own[r.lane]; !ok {
			last = -1
		}
	}
	if r.n < last {
		l.count.Disordered++
		return
	}
	p.last = max(p.last, r.n)
	if own != nil {
		own[r.lane] = r.n
	}
}

// leasedUntil notes the lease of a delivery; l.mu is held. The server gave it
// after the request was sent.
func (l *ledger) leasedUntil(group int, d *delivery) {
	for i := range d.Messages {
		if at := d.Messages[i].Data.Lane - 1; at >= 0 && at < len(l.lanes) {
			l.lanes[at].places[group].until = d.sent.Add(l.lease)
		}
	}
}

// acked notes what became of the acks of a delivery.
func (l *ledger) acked(group int, d *delivery, ok func(i int) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range d.Messages {
		at, n := d.Messages[i].Data.Lane-1, d.Messages[i].Data.N-1
		if at < 0 || at >= len(l.lanes) || n < 0 || n >= len(l.lanes[at].known) {
			continue
		}
		f := &l.lanes[at].places[group].fates[n]
		switch {
		case ok(i):
			*f = done
		case *f == leased:
			*f = loose
			l.count.LostLeases++
		}
	}
}

// below waits until no more than most messages are on the way, each group
// counted apart.
func (l *ledger) below(ctx context.Context, most int) error {
	for {
		l.mu.Lock()
		if l.due+l.underway*l.groups <= most {
			l.mu.Unlock()
			return nil
		}
		changed := l.watch()
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch returns what closes with the next change; l.mu is held.
func (l *ledger) watch() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// drained waits until everything stored has come, as long as something does
// within patience. It says whether everything has.
func (l *ledger) drained(ctx context.Context, patience time.Duration) (bool, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		l.mu.Lock()
		if l.due == 0 && l.underway == 0 {
			l.mu.Unlock()
			return true, nil
		}
		changed := l.watch()
		l.mu.Unlock()
		select {
		case <-changed:
			timer.Reset(patience)
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// counts returns what has been found; Lost is what has not come so far.
func (l *ledger) counts() Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.count
	c.Lost = l.due
	return c
}
