package ack

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/contention"
	"github.com/belfry-mq/belfry/pkg/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/store/internal/pipeline"
	"github.com/belfry-mq/belfry/sql"
)

var sqlAckApply = sql.Query("store/ack_apply")

// unknownLease stands for a lease id that no lease can have.
var unknownLease = queue.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Flush is what a number of calls change in one transaction.
type Flush struct {
	// Leases are leases whose cursors are locked as well.
	Leases []queue.ID
	// Patience bounds the wait for one lock.
	Patience time.Duration
	// Hidden are messages that do not exist for an ack of the same partition and transaction id, by the
	// index of the ack in its call.
	Hidden map[int]queue.ID

	calls []*Call
	// cursors are the distinct cursors, and entries the acks, sorted by cursor, call and seq.
	cursors []cursorKey
	entries []*entry
	// begun: the transaction is open already.
	begun bool

	// locked are the cursors after Read, and ready what the commit makes ready.
	locked     []lockedCursor
	liveLeases map[queue.ID]bool
	ready      []queue.Ready
	needWake   []int64
}

// cursorKey identifies a cursor. The wire id tells partitions apart that got the same database id in
// different epochs.
type cursorKey struct {
	contention.Cursor
	partitionID queue.ID
}

// entry is an ack, or all acks of one call for one cursor, if all of them complete messages under one
// lease: completing the last message completes them all.
type entry struct {
	cursor     int
	callNumber int32
	call       *Call
	// items are the acks and seqs their messages, in ascending order. A single seq may be 0: it is
	// looked up.
	items []int
	seqs  []int64
}

// NewFlush returns a flush of resolved calls.
func NewFlush(calls []*Call) *Flush {
	f := &Flush{calls: calls, liveLeases: map[queue.ID]bool{}}
	index := map[cursorKey]int{}
	for number, call := range calls {
		var own []*entry // by cursor, in the order of the call
		byCursor := map[int][]int{}
		for _, item := range call.Found {
			key := cursorKey{call.cursorOf(item), call.Partitions[item].ID}
			at, ok := index[key]
			if !ok {
				at = len(f.cursors)
				index[key] = at
				f.cursors = append(f.cursors, key)
			}
			byCursor[at] = append(byCursor[at], item)
		}
		for at, items := range byCursor {
			own = append(own, call.entries(items, entry{cursor: at, callNumber: int32(number + 1), call: call})...)
		}
		f.entries = append(f.entries, own...)
	}
	slices.SortStableFunc(f.entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.cursor, b.cursor), cmp.Compare(a.callNumber, b.callNumber), cmp.Compare(a.seqs[0], b.seqs[0]))
	})
	return f
}

// entries returns the entries of the acks of one cursor; like has their common fields.
func (call *Call) entries(items []int, like entry) []*entry {
	first := call.Items[items[0]].LeaseID
	together := !slices.ContainsFunc(items, func(i int) bool {
		return call.Items[i].Status != queue.AckCompleted || call.Seqs[i] == 0 || call.Items[i].LeaseID != first
	})
	if together {
		slices.SortStableFunc(items, func(a, b int) int { return cmp.Compare(call.Seqs[a], call.Seqs[b]) })
		like.items, like.seqs = items, make([]int64, len(items))
		for at, item := range items {
			like.seqs[at] = call.Seqs[item]
		}
		return []*entry{&like}
	}
	each := make([]*entry, len(items))
	for at, item := range items {
		one := like
		one.items, one.seqs = []int{item}, []int64{call.Seqs[item]}
		each[at] = &one
	}
	return each
}

// Partitions returns the partitions of the acks.
func (f *Flush) Partitions() []int64 {
	partitions := make([]int64, len(f.cursors))
	for i, key := range f.cursors {
		partitions[i] = key.Partition
	}
	return partitions
}

// groups returns the groups of the acks, in the order of Partitions.
func (f *Flush) groups() []string {
	groups := make([]string, len(f.cursors))
	for i, key := range f.cursors {
		groups[i] = key.Group
	}
	return groups
}

// Empty says that the flush has neither acks nor leases.
func (f *Flush) Empty() bool { return len(f.cursors)+len(f.Leases) == 0 }

func (f *Flush) cursorNames() []contention.Cursor {
	cursors := make([]contention.Cursor, len(f.cursors))
	for i, key := range f.cursors {
		cursors[i] = key.Cursor
	}
	return cursors
}

// LiveBefore says whether a lease was live before the acks. Its cursor must be one of the flush.
func (f *Flush) LiveBefore(lease queue.ID) bool { return f.liveLeases[lease] }

// LeaseBefore returns, by ack of a call, the live lease of its cursor before the acks; zero: none. An
// ack without a cursor is missing.
func (f *Flush) LeaseBefore(call *Call) map[int]queue.ID {
	leases := map[int]queue.ID{}
	for _, e := range f.entries {
		if e.call == call && f.locked[e.cursor].exists {
			for _, item := range e.items {
				leases[item] = f.locked[e.cursor].leaseBefore
			}
		}
	}
	return leases
}

// Ready returns what the commit makes ready.
func (f *Flush) Ready() []queue.Ready { return f.ready }

// run applies and commits the acks in one round trip: one statement is a transaction of its own. The
// wake of cursors that need one takes another round trip.
func (f *Flush) run(ctx context.Context, a *Acker, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	f.Queue(b)
	if f.begun {
		b.Queue("COMMIT")
	}
	err := pipeline.Send(ctx, conn, b, f.Read)
	if err != nil {
		return groupcommit.CommitError(err)
	}
	if len(f.needWake) > 0 {
		f.ready = append(f.ready, a.Waker.WakeOn(ctx, conn, f.needWake)...)
	}
	a.Waker.Announce(f.ready)
	return nil
}

// Queue adds to b the statement that locks the cursors and applies the acks. Read reads its result.
func (f *Flush) Queue(b *pgx.Batch) {
	p := f.parameters()
	b.Queue(sqlAckApply, f.Partitions(), p.partitionIDs, f.groups(), p.lastEntries, p.calls, p.seqs, p.leases, p.statuses, pipeline.Array(p.errors),
		p.lastMessages, p.messages, pipeline.Array(p.lookups), pipeline.Array(p.transactions), pipeline.Array(p.hidden), names.RawIDs(f.Leases),
		lockTimeout(f.Patience))
}

// parameters are those of ack_apply.sql.
type parameters struct {
	partitionIDs        [][16]byte // by cursor
	lastEntries         []int32
	calls, lastMessages []int32 // by entry
	seqs                []int64
	leases              [][16]byte
	statuses            []int16
	errors              [][]byte
	messages            []int64 // by message
	lookups             []int32 // by look-up
	transactions        []string
	hidden              []pgtype.UUID
}

func (f *Flush) parameters() *parameters {
	n := len(f.entries)
	p := &parameters{
		partitionIDs: make([][16]byte, len(f.cursors)), lastEntries: make([]int32, len(f.cursors)), calls: make([]int32, n),
		lastMessages: make([]int32, n), seqs: make([]int64, n), leases: make([][16]byte, n), statuses: make([]int16, n), messages: make([]int64, 0, n),
	}
	for i, key := range f.cursors {
		p.partitionIDs[i] = key.partitionID
	}
	for i, e := range f.entries {
		ack := &e.call.Items[e.items[0]]
		p.lastEntries[e.cursor] = int32(i + 1)
		p.calls[i], p.seqs[i], p.statuses[i] = e.callNumber, e.seqs[len(e.seqs)-1], int16(ack.Status)
		p.leases[i] = leaseOf(ack)
		p.messages = append(p.messages, e.seqs...)
		p.lastMessages[i] = int32(len(p.messages))
		if ack.Error != "" && (ack.Status == queue.AckFailed || ack.Status == queue.AckDead) {
			if p.errors == nil {
				p.errors = make([][]byte, n)
			}
			p.errors[i] = []byte(ack.Error)
		}
		if e.seqs[0] == 0 {
			hidden, isHidden := f.Hidden[e.items[0]]
			p.lookups, p.transactions = append(p.lookups, int32(i+1)), append(p.transactions, ack.TransactionID)
			p.hidden = append(p.hidden, pgtype.UUID{Bytes: hidden, Valid: isHidden})
		}
	}
	return p
}

// leaseOf returns the lease that fences an ack; the zero id: the ack is not fenced.
func leaseOf(ack *queue.AckItem) queue.ID {
	if ack.LeaseID == "" {
		return queue.ID{}
	}
	id, err := queue.ParseID(ack.LeaseID)
	if err != nil || id.IsZero() || id.String() != strings.ToLower(ack.LeaseID) {
		return unknownLease
	}
	return id
}
