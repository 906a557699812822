package ack

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlAckFind        = sql.Query("engine/store/ack_find")
	sqlAckApply       = sql.Query("engine/store/ack_apply")
	sqlAckApplyLeases = sql.Query("engine/store/ack_apply_leases")
)

// unknownLease is an id that no lease can have.
var unknownLease = queue.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Flush applies the acks of several calls in one transaction.
type Flush struct {
	// Leases are leases whose cursors the flush locks as well.
	Leases []queue.ID
	// Patience bounds the wait for one lock.
	Patience time.Duration
	// Alone is set if the transaction contains only the acks.
	Alone bool

	calls []*Call
	// Partitions, partitionIDs and groups describe the distinct cursors, one element per cursor. index
	// maps a cursor to its element.
	Partitions   []int64
	partitionIDs [][16]byte
	groups       []string
	index        map[cursorKey]int
	// unknown are the acks whose messages QueueFind looks up.
	unknown []unknownSeq
	// entries are the acks of existing messages, sorted by cursor, call and seq.
	entries []*entry
	// begun is set if the transaction is already open.
	begun bool

	// Read sets the fields below. locked are the cursors. ready are the pairs of group and
	// partition that the commit makes ready. needWake are the partitions that need a wake after the
	// commit.
	locked     []lockedCursor
	liveLeases map[queue.ID]bool
	ready      []queue.Ready
	needWake   []int64
}

// unknownSeq is an ack whose message QueueFind looks up.
type unknownSeq struct {
	call *Call
	item int
}

// cursorKey identifies a cursor. partitionID, the wire id, distinguishes partitions that have the
// same database id in different epochs.
type cursorKey struct {
	Cursor
	partitionID queue.ID
}

// entry is one ack. If all acks of one call for one cursor complete messages of the log under one
// lease, one entry holds all these acks: completing the last message completes all of them.
type entry struct {
	cursor     int
	callNumber int32
	call       *Call
	items      []int
	seq        int64 // the seq of the last message
}

// NewFlush returns a flush of resolved calls.
func NewFlush(calls []*Call) *Flush {
	f := &Flush{
		calls: calls, Partitions: []int64{}, partitionIDs: [][16]byte{}, groups: []string{}, index: map[cursorKey]int{},
		liveLeases: map[queue.ID]bool{},
	}
	for _, call := range calls {
		for _, item := range call.Found {
			key := call.keyOf(item)
			if _, known := f.index[key]; !known {
				f.index[key] = len(f.Partitions)
				f.Partitions, f.groups = append(f.Partitions, key.Partition), append(f.groups, key.Group)
				f.partitionIDs = append(f.partitionIDs, key.partitionID)
			}
			if call.Seqs[item] == 0 {
				f.unknown = append(f.unknown, unknownSeq{call, item})
			}
		}
	}
	return f
}

// keyOf identifies the cursor of an item.
func (call *Call) keyOf(item int) cursorKey {
	return cursorKey{call.cursorOf(item), call.Partitions[item].ID}
}

// NeedsFind reports whether QueueFind and ReadFind must run before Queue.
func (f *Flush) NeedsFind() bool { return len(f.unknown) > 0 }

// QueueFind adds the look-up of messages to b. ReadFind reads its result.
func (f *Flush) QueueFind(b *pgx.Batch) {
	partitions, transactions := make([]int64, len(f.unknown)), make([]string, len(f.unknown))
	for i, u := range f.unknown {
		partitions[i], transactions[i] = u.call.Partitions[u.item].Key, u.call.Items[u.item].TransactionID
	}
	b.Queue(sqlAckFind, partitions, transactions)
}

// ReadFind reads the result of QueueFind and sets the Seqs of the calls.
func (f *Flush) ReadFind(results pgx.BatchResults) error {
	var ord, seq int64
	return pipeline.ForEach(results, "finding messages", []any{&ord, &seq}, func() error {
		u := f.unknown[ord-1]
		u.call.Seqs[u.item] = seq
		return nil
	})
}

// buildEntries makes the entries of the acks whose message exists.
func (f *Flush) buildEntries() {
	f.entries = nil
	for number, call := range f.calls {
		byCursor := map[int][]int{}
		together := map[int]bool{}
		for _, item := range call.Found {
			if call.Seqs[item] == 0 {
				continue
			}
			at := f.index[call.keyOf(item)]
			items := byCursor[at]
			ack := &call.Items[item]
			fits := ack.Status == queue.AckCompleted && call.ofLog[item]
			together[at] = fits && (len(items) == 0 || together[at] && call.Items[items[0]].LeaseID == ack.LeaseID)
			byCursor[at] = append(items, item)
		}
		for at, items := range byCursor {
			single := entry{cursor: at, callNumber: int32(number + 1), call: call}
			f.addEntries(single, items, together[at])
		}
	}
	slices.SortStableFunc(f.entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.cursor, b.cursor), cmp.Compare(a.callNumber, b.callNumber), cmp.Compare(a.seq, b.seq))
	})
}

// addEntries adds the acks of one call for one cursor. like has the fields that all entries share.
func (f *Flush) addEntries(like entry, items []int, together bool) {
	if together {
		like.items = items
		for _, item := range items {
			like.seq = max(like.seq, like.call.Seqs[item])
		}
		f.entries = append(f.entries, &like)
		return
	}
	for _, item := range items {
		single := like
		single.items, single.seq = []int{item}, like.call.Seqs[item]
		f.entries = append(f.entries, &single)
	}
}

// Empty reports whether the flush has no acks and no leases.
func (f *Flush) Empty() bool { return len(f.Partitions)+len(f.Leases) == 0 }

// LiveBefore reports whether a lease was live before the acks. The flush must have locked the
// cursor of the lease.
func (f *Flush) LiveBefore(lease queue.ID) bool { return f.liveLeases[lease] }

// LeaseBefore returns for each ack of a call the lease that was live on its cursor before the acks,
// or the zero id. It leaves out acks without a cursor.
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

// Ready returns the pairs of group and partition that the commit makes ready.
func (f *Flush) Ready() []queue.Ready { return f.ready }

// run applies and commits the acks in one round trip. If messages must be looked up, run makes one
// round trip before. If partitions need a wake, run makes one round trip after the commit.
func (f *Flush) run(ctx context.Context, a *Acker, conn *pgxpool.Conn) error {
	if f.NeedsFind() {
		b := &pgx.Batch{}
		f.QueueFind(b)
		if err := pipeline.Send(ctx, conn, b, f.ReadFind); err != nil {
			return err
		}
	}
	b := &pgx.Batch{}
	f.Alone = !f.begun
	f.Queue(b)
	if f.begun {
		b.Queue("COMMIT")
	}
	if err := pipeline.SendConfirmed(ctx, conn, b, f.Read); err != nil {
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
	f.buildEntries()
	n := len(f.entries)
	lastEntries := make([]int32, len(f.Partitions))
	calls, seqs, leases, statuses := make([]int32, n), make([]int64, n), make([][16]byte, n), make([]int16, n)
	errors, pauses, consumers, groupPauses := [][]byte{}, []*int64{}, []string{}, []*int64{}
	for i, e := range f.entries {
		ack := &e.call.Items[e.items[0]]
		lastEntries[e.cursor] = int32(i + 1)
		calls[i], seqs[i], leases[i], statuses[i] = e.callNumber, e.seq, leaseOf(ack), int16(ack.Status)
		if ack.Error != "" && ack.Status != queue.AckCompleted {
			errors = slices.Concat(errors, make([][]byte, i+1-len(errors)))
			errors[i] = []byte(ack.Error)
		}
		if ack.Consumer != "" && ack.Status != queue.AckCompleted {
			consumers = slices.Concat(consumers, make([]string, i+1-len(consumers)))
			consumers[i] = ack.Consumer
		}
		if ack.RetryAfter != nil {
			pauses = slices.Concat(pauses, make([]*int64, i+1-len(pauses)))
			pauses[i] = new(ack.RetryAfter.Milliseconds())
		}
		if ack.PauseGroup > 0 {
			groupPauses = slices.Concat(groupPauses, make([]*int64, i+1-len(groupPauses)))
			groupPauses[i] = new(max(ack.PauseGroup.Milliseconds(), 1))
		}
	}
	for i := 1; i < len(lastEntries); i++ {
		lastEntries[i] = max(lastEntries[i], lastEntries[i-1]) // a cursor has no entry if all its messages are missing
	}
	args := []any{
		f.Partitions, f.partitionIDs, f.groups, lastEntries, calls, seqs, leases, statuses, errors, pauses, lockTimeout(f.Patience),
	}
	if len(f.Leases) > 0 {
		b.Queue(sqlAckApplyLeases, append(args, queue.RawIDs(f.Leases), consumers, f.instance(), groupPauses)...)
	} else {
		b.Queue(sqlAckApply, append(args, f.Alone && n > 0 && len(f.Partitions) == 1, consumers, f.instance(), groupPauses)...)
	}
}

// instance returns the name of this instance, for failed attempts.
func (f *Flush) instance() string {
	if len(f.calls) == 0 {
		return ""
	}
	return f.calls[0].instance
}

// leaseOf returns the lease that the ack names, or the zero id for an ack without a lease. It
// returns unknownLease for an invalid id.
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
