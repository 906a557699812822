package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// forever is later than every time in a history.
const forever = time.Duration(math.MaxInt64)

type laneName struct{ queue, partition string }

type groupName struct{ queue, group string }

// index arranges the operations of a history by the objects that they concern. The caller owns the operations.
type index struct {
	options     Options
	state       *State
	byID        map[int64]*history.Operation
	lanes       []*lane
	laneByName  map[laneName]*lane
	groups      []*group
	groupByName map[groupName]*group
	// owners has, for each lease id, the pops that delivered under the lease, in order.
	owners map[string][]*history.Operation
	// extends has the accepted extends of each lease id.
	extends map[string][]*history.Operation
	// possibleExtends also has the extends of unknown outcome.
	possibleExtends map[string][]*history.Operation
	// transactions are ordered by their begin.
	transactions []*transaction
	transacted   map[string]*transaction
	// order has all operations in the order of their begin.
	order []*history.Operation
	// erased has the messages that were deleted with their queues.
	erased map[Erased]bool
	// rewinds are the promotions of standbys.
	rewinds []*history.Operation
	// former maps a message of a removed partition to the name of its lane.
	former map[Erased]string
}

// lane is the checker's view of a partition.
type lane struct {
	laneName
	part *Partition // nil: the state does not have the partition
	// entries are the messages by transaction id. log has the stored messages by ordinal.
	entries []*entry
	byID    map[string]*entry
	log     []*entry
	// nameless counts pushed items without a transaction id and with an unknown outcome. The server generated the id.
	nameless      int
	readers       []*reader
	readerByGroup map[string]*reader
	// pushes are the answered pushes to the lane, in order.
	pushes []itemsOf
	// rows are all messages ever stored, with the deleted ones, in the order of Seq.
	rows []Message
	// generations has the generations of groups whose cursors were moved. byLease maps a lease to its generation.
	generations map[string][]*reader
	byLease     map[string]*reader
	// redelivered has the seqs that each lease delivered because of a redrive.
	redelivered map[string]map[int64]bool
}

// itemsOf are the items of an operation in one lane.
type itemsOf struct {
	op    *history.Operation
	items []*history.Item
}

// entry is one transaction id in a lane.
type entry struct {
	transaction string
	// ordinal is the number of the message in the log, from 1, or 0 if the message is not stored. seq is its
	// position. Both are equal while the log has no holes.
	ordinal int
	seq     int64
	rows    int
	message string // from the log, or from the first answer

	done, unknown, refused, fresh, duplicate int
	// push is the first push with success, or the first push if no push succeeded.
	push *history.Operation
	// freshPush is the first push whose answer said that the message is new.
	freshPush *history.Operation
	// The message was stored between after and by.
	after, by time.Duration
	// delay and longest are the minimum and the maximum delay in its pushes.
	delay, longest time.Duration
	// committed is the time of the answer to a push by SQL. The message is stored later.
	committed time.Duration
	// delivery is the first pop that delivered the message.
	delivery *history.Operation
	// conflict is an operation whose answer had another message id, conflictWith.
	conflict     *history.Operation
	conflictWith string
	// again is the second push whose answer said that the message is new.
	again *history.Operation
	// deleted is the deletion, or nil. deletes are the operations that may have requested it. erased means that the
	// message was deleted with its queue.
	deleted *Deletion
	deletes []*history.Operation
	erased  bool
	created time.Time
}

// group is a consumer group of a queue, with all lanes.
type group struct {
	groupName
	// lostAutoAcks are the autoAck pops of unknown outcome. unknown are the other pops of unknown outcome, which may
	// hold a lease.
	lostAutoAcks, unknown []*history.Operation
	// repeatedAutoAcks are autoAck pops answered during a fault. The server may have claimed twice. In this case the
	// messages of the first claim are lost.
	repeatedAutoAcks []*history.Operation
	// empty are the waiting pops that returned no message, and the waits of consumers in SQL.
	empty []*history.Operation
	// resets are the seeks and deletions.
	resets []*history.Operation
	// redrives are the redrives of its dead letters.
	redrives []*history.Operation
	readers  []*reader
}

// reader is a consumer group in one lane.
type reader struct {
	lane   *lane
	group  *group
	cursor *Cursor // nil: the state has no cursor of the group
	// gen is set if the reader covers the time between two moves of its cursor. It is nil if the cursor was never
	// moved.
	gen *generation
	// deliveries and acks are sorted by their begin. They do not contain refused operations.
	deliveries []*delivery
	acks       []*ack
	// unapplied maps an ordinal to the transaction that acknowledged the message and was certainly not applied.
	unapplied map[int]*transaction
	// deadLettering has, for each message, the acks that may have made it a dead letter. See deadLetteringAcks.
	deadLettering map[*entry][]*ack
}

// delivery has the messages that a pop delivered from one lane.
type delivery struct {
	op *history.Operation
	// entries are the messages in the order of the delivery. A message that is not stored has ordinal 0.
	entries []*entry
	// after is the earliest time of the claim. It is later than the begin of the pop if a message was pushed while the
	// pop waited.
	after time.Duration
	// redelivery means that all messages may have been redriven.
	redelivery bool
}

// ack is one acknowledgment of a stored message.
type ack struct {
	op    *history.Operation
	item  *history.Item
	entry *entry
	// redelivery means that the ack may acknowledge redriven messages. Then it settles only its own message.
	redelivery bool
}

// uncertain reports whether the outcome is unknown: the ack may have been applied.
func (a *ack) uncertain() bool { return a.op.Outcome == history.Unknown }

func newIndex(operations []history.Operation, state State, options Options) *index {
	operations, rewinds := withoutRewound(operations, &state)
	x := &index{
		options: options, state: &state, rewinds: rewinds, byID: make(map[int64]*history.Operation, len(operations)),
		laneByName: map[laneName]*lane{}, groupByName: map[groupName]*group{},
		owners: map[string][]*history.Operation{}, extends: map[string][]*history.Operation{},
		possibleExtends: map[string][]*history.Operation{}, transacted: map[string]*transaction{},
		erased: make(map[Erased]bool, len(state.Erased)), former: map[Erased]string{},
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
		x.lane(one.Queue, one.Partition).redelivered[one.LeaseID] = put
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
			x.former[Erased{p.Queue, clientName(p.Name), p.Deleted[i].TransactionID}] = p.Name
		}
		l.rows = append(l.rows, p.Deleted[i].Message)
		gone[p.Deleted[i].Seq] = &p.Deleted[i]
	}
	slices.SortStableFunc(l.rows, func(a, b Message) int { return cmp.Compare(a.Seq, b.Seq) })
	l.log = make([]*entry, 0, len(l.rows))
	for _, m := range l.rows {
		e := l.entry(m.TransactionID)
		if e.rows++; e.rows == 1 {
			e.ordinal, e.seq, e.message, e.deleted = len(l.log)+1, m.Seq, m.MessageID, gone[m.Seq]
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
	l := x.laneByName[name]
	if l == nil {
		l = &lane{laneName: name, byID: map[string]*entry{}, readerByGroup: map[string]*reader{}, byLease: map[string]*reader{}, redelivered: map[string]map[int64]bool{}}
		x.laneByName[name] = l
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
	g := x.groupByName[key]
	if g == nil {
		g = &group{groupName: key}
		x.groupByName[key] = g
		x.groups = append(x.groups, g)
	}
	return g
}

func (x *index) reader(queue, partition, name string) *reader {
	l := x.lane(queue, partition)
	r := l.readerByGroup[name]
	if r == nil {
		r = &reader{lane: l, group: x.group(queue, name)}
		l.readerByGroup[name] = r
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

// laneOf returns the lane of an item. It is the current partition with the name, unless the message was in a removed
// one.
func (x *index) laneOf(queue string, item *history.Item) *lane {
	if name, ok := x.former[Erased{queue, item.Partition, item.TransactionID}]; ok {
		return x.lane(queue, name)
	}
	return x.lane(queue, item.Partition)
}

// byLane groups the items of an operation by lane.
func (x *index) byLane(op *history.Operation, f func(*lane, []*history.Item)) {
	var touched []*lane
	var items map[*lane][]*history.Item
	if len(op.Items) > 0 {
		items = make(map[*lane][]*history.Item, 1)
	}
	for i := range op.Items {
		if op.Kind != history.Push && x.erased[Erased{op.Queue, op.Items[i].Partition, op.Items[i].TransactionID}] {
			continue // the message belongs to a deleted queue
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

// at returns a violation of a rule in a lane.
func (l *lane) at(rule string, op *history.Operation, message string) Violation {
	v := Violation{Rule: rule, Queue: l.queue, Partition: l.partition, Message: message}
	if op != nil {
		v.Operation = op.ID
	}
	return v
}

// at returns a violation of a rule by a reader.
func (r *reader) at(rule string, op *history.Operation, message string) Violation {
	v := r.lane.at(rule, op, message)
	v.Group = r.group.group
	return v
}
