package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// forever is later than every instant of a history.
const forever = time.Duration(math.MaxInt64)

type laneName struct{ queue, partition string }

type groupName struct{ queue, group string }

// index is a history by what its operations touched. Operations are those of
// the caller, in the order they began.
type index struct {
	options Options
	state   *State
	byID    map[int64]*history.Operation
	lanes   []*lane
	named   map[laneName]*lane
	groups  []*group
	called  map[groupName]*group
	// owners are the pops that delivered each lease id, in order.
	owners map[string][]*history.Operation
	// extends are the extends that were accepted, by lease id.
	extends map[string][]*history.Operation
	// prolongs are those that may have been, too.
	prolongs map[string][]*history.Operation
	// transactions are in the order they began.
	transactions []*transaction
	transacted   map[string]*transaction
	// order has all operations in the order they began.
	order []*history.Operation
	// watched: the state has moves, so what seeks did is known.
	watched bool
	// erased are the messages that went with their queues.
	erased map[Erased]bool
	// former are the partitions, removed since, of the messages that were in them.
	former map[Erased]string
}

// lane is what is known of a partition.
type lane struct {
	laneName
	part *Partition // nil: the state has no such partition
	// entries are the messages, by transaction id; log those that are stored, by
	// their place in the log.
	entries []*entry
	byID    map[string]*entry
	log     []*entry
	// nameless are pushed items without a transaction id whose outcome is unknown:
	// the server made one up.
	nameless int
	readers  []*reader
	reads    map[string]*reader
	// pushes are the answered pushes to the lane, in order.
	pushes []itemsOf
	// rows are all messages ever stored, in the order of Seq, those that were deleted
	// included.
	rows []Message
	// lives are the generations of groups whose cursors were moved, and given those
	// that each lease belongs to.
	lives map[string][]*reader
	given map[string]*reader
	// put are the seqs that each lease delivered because they were put back.
	put map[string]map[int64]bool
}

// itemsOf are the items of an operation that concern one lane.
type itemsOf struct {
	op    *history.Operation
	items []*history.Item
}

// entry is what is known of one transaction id of a lane.
type entry struct {
	transaction string
	// place counts the messages of the log from 1; 0: it is not stored. seq is its
	// position, which is the same while the log has no holes.
	place   int
	seq     int64
	rows    int
	message string // as the log has it, or else as it was told first

	done, unknown, refused, fresh, duplicate int
	// push is the first push; a done one if there is any.
	push *history.Operation
	// freshPush was told that the message is new.
	freshPush *history.Operation
	// Stored not before after, and not later than by.
	after, by time.Duration
	// delay is the shortest that a push of it asked for, longest the longest.
	delay, longest time.Duration
	// committed is when a push by SQL was answered: it is stored later.
	committed time.Duration
	// delivery is the first that was answered.
	delivery *history.Operation
	// conflict is an operation that was told another message id, and which.
	conflict     *history.Operation
	conflictWith string
	// again is the second push that was told that the message is new.
	again *history.Operation
	// deleted is how it went; nil: it did not. deletes are those that may have asked
	// for it, erased says that it went with its queue.
	deleted *Deletion
	deletes []*history.Operation
	erased  bool
	created time.Time
}

// group is what is known of a consumer group in all of a queue.
type group struct {
	groupName
	// Pops of unknown outcome: wild ones were autoAck, the others may hold a lease.
	wild, unknown []*history.Operation
	// repeated are autoAck pops that were answered while something was broken: the
	// server may have claimed twice, and what the first claim took is gone.
	repeated []*history.Operation
	// empty are the waiting pops that came back without a message, and the waits of
	// consumers in SQL.
	empty []*history.Operation
	seeks []*history.Operation
	// resets are the seeks and deletions whose effect is known, and not in seeks.
	resets []*history.Operation
	// redrives may bring dead letters back.
	redrives []*history.Operation
	readers  []*reader
}

// reader is a consumer group in one lane.
type reader struct {
	lane   *lane
	group  *group
	cursor *Cursor // nil: the state has none
	// gen: this is what the group did between two moves of its cursor; nil: there was
	// no move.
	gen *generation
	// deliveries and acks are in the order they began. Refused ones are not here.
	deliveries []*delivery
	acks       []*ack
	// lost are, by place, the transactions that acknowledged a message and cannot
	// have been applied.
	lost map[int]*transaction
	// buried are the acks that may have dead-lettered each message; see burials.
	buried map[*entry][]*ack
}

// delivery is what a pop delivered from one lane.
type delivery struct {
	op *history.Operation
	// entries are the messages in the order they came; one that is not stored has
	// place 0.
	entries []*entry
	// after: the pop claimed the messages not before. It is later than the
	// beginning of the pop if a message was pushed while it waited.
	after time.Duration
	// redelivery: all of it may have been put back after it was dead-lettered.
	redelivery bool
}

// ack is one acknowledgment of a stored message.
type ack struct {
	op    *history.Operation
	item  *history.Item
	entry *entry
	// redelivery: the delivery that it is of may be one of messages that were put
	// back. Then it is for its message alone.
	redelivery bool
}

// unsure: it may have been applied.
func (a *ack) unsure() bool { return a.op.Outcome == history.Unknown }

func newIndex(operations []history.Operation, state State, options Options) *index {
	x := &index{
		options: options, state: &state, byID: make(map[int64]*history.Operation, len(operations)),
		named: map[laneName]*lane{}, called: map[groupName]*group{},
		owners: map[string][]*history.Operation{}, extends: map[string][]*history.Operation{},
		prolongs: map[string][]*history.Operation{}, transacted: map[string]*transaction{},
		watched: len(state.Moves) > 0, erased: make(map[Erased]bool, len(state.Erased)), former: map[Erased]string{},
	}
	for i := range state.Partitions {
		x.addPartition(&state.Partitions[i])
	}
	x.addGenerations()
	for _, one := range state.Redelivered {
		put := map[int64]bool{}
		for _, seq := range one.Seqs {
			put[seq] = true
		}
		x.lane(one.Queue, one.Partition).put[one.LeaseID] = put
	}
	for _, e := range state.Erased {
		x.erased[e] = true
	}
	order := make([]*history.Operation, len(operations))
	for i := range operations {
		order[i] = &operations[i]
		x.byID[operations[i].ID] = order[i]
	}
	slices.SortStableFunc(order, func(a, b *history.Operation) int { return cmp.Compare(a.Begin, b.Begin) })
	x.order = order
	for _, op := range order {
		if op.Kind == history.Push {
			x.addPush(op)
		}
	}
	for _, op := range order {
		if op.Kind != history.Ack {
			x.add(op)
		} else if op.Transaction != "" {
			x.transaction(op)
		}
	}
	for _, op := range order {
		if op.Kind == history.Ack {
			x.add(op)
		}
	}
	x.readers((*reader).findRedeliveries)
	return x
}

func (x *index) addPartition(p *Partition) {
	l := x.lane(p.Queue, p.Name)
	l.part = p
	l.rows = slices.Clone(p.Log)
	gone := map[int64]*Deletion{}
	for i := range p.Deleted {
		if p.Removed != nil {
			x.former[Erased{p.Queue, called(p.Name), p.Deleted[i].TransactionID}] = p.Name
		}
		l.rows = append(l.rows, p.Deleted[i].Message)
		gone[p.Deleted[i].Seq] = &p.Deleted[i]
	}
	slices.SortStableFunc(l.rows, func(a, b Message) int { return cmp.Compare(a.Seq, b.Seq) })
	l.log = make([]*entry, 0, len(l.rows))
	for _, m := range l.rows {
		e := l.entry(m.TransactionID)
		if e.rows++; e.rows == 1 {
			e.place, e.seq, e.message, e.deleted = len(l.log)+1, m.Seq, m.MessageID, gone[m.Seq]
			e.created = m.CreatedAt
			l.log = append(l.log, e)
		}
	}
	for i := range p.Cursors {
		if !p.Cursors[i].Missing {
			x.reader(p.Queue, p.Name, p.Cursors[i].Group).cursor = &p.Cursors[i]
		}
	}
}

func (x *index) lane(queue, partition string) *lane {
	name := laneName{queue, partition}
	l := x.named[name]
	if l == nil {
		l = &lane{laneName: name, byID: map[string]*entry{}, reads: map[string]*reader{}, given: map[string]*reader{}, put: map[string]map[int64]bool{}}
		x.named[name] = l
		x.lanes = append(x.lanes, l)
	}
	return l
}

func (l *lane) entry(transaction string) *entry {
	e := l.byID[transaction]
	if e == nil {
		e = &entry{transaction: transaction, after: forever, by: forever, committed: forever}
		l.byID[transaction] = e
		l.entries = append(l.entries, e)
	}
	return e
}

func (x *index) group(queue, name string) *group {
	key := groupName{queue, name}
	g := x.called[key]
	if g == nil {
		g = &group{groupName: key}
		x.called[key] = g
		x.groups = append(x.groups, g)
	}
	return g
}

func (x *index) reader(queue, partition, name string) *reader {
	l := x.lane(queue, partition)
	r := l.reads[name]
	if r == nil {
		r = &reader{lane: l, group: x.group(queue, name)}
		l.reads[name] = r
		l.readers = append(l.readers, r)
		r.group.readers = append(r.group.readers, r)
	}
	return r
}

// readers calls f for every reader.
func (x *index) readers(f func(*reader)) {
	for _, l := range x.lanes {
		for _, r := range l.readers {
			f(r)
		}
	}
}

// laneOf is where an item belongs: to the partition that is there, unless the message
// was in one that had its name before.
func (x *index) laneOf(queue string, item *history.Item) *lane {
	if name, ok := x.former[Erased{queue, item.Partition, item.TransactionID}]; ok {
		return x.lane(queue, name)
	}
	return x.lane(queue, item.Partition)
}

// byLane sorts the items of an operation into the lanes they belong to.
func (x *index) byLane(op *history.Operation, f func(*lane, []*history.Item)) {
	var touched []*lane
	var items map[*lane][]*history.Item
	if len(op.Items) > 0 {
		items = make(map[*lane][]*history.Item, 1)
	}
	for i := range op.Items {
		if op.Kind != history.Push && x.erased[Erased{op.Queue, op.Items[i].Partition, op.Items[i].TransactionID}] {
			continue // it is no part of what is there
		}
		l := x.laneOf(op.Queue, &op.Items[i])
		if items[l] == nil {
			touched = append(touched, l)
		}
		items[l] = append(items[l], &op.Items[i])
	}
	for _, l := range touched {
		f(l, items[l])
	}
}

// at makes a violation of a rule in a lane.
func (l *lane) at(rule string, op *history.Operation, message string) Violation {
	v := Violation{Rule: rule, Queue: l.queue, Partition: l.partition, Message: message}
	if op != nil {
		v.Operation = op.ID
	}
	return v
}

// at makes a violation of a rule by a reader.
func (r *reader) at(rule string, op *history.Operation, message string) Violation {
	v := r.lane.at(rule, op, message)
	v.Group = r.group.group
	return v
}
