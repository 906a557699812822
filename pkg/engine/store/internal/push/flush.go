package push

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlAppend      = sql.Query("engine/store/append")
	sqlInboxDelete = sql.Query("engine/store/inbox_delete")
)

// ItemRef refers to an item of one of the calls of a flush.
type ItemRef struct {
	call *Call
	Item int
}

// Result returns the result of the item.
func (r ItemRef) Result() *queue.PushResult { return &r.call.Results[r.Item] }

// ID returns the message id of the item.
func (r ItemRef) ID() queue.ID { return r.call.IDs[r.Item] }

// Partition returns the partition of the item.
func (r ItemRef) Partition() *queue.Partition {
	return r.call.Opened[r.call.partitionOf[r.Item]]
}

// Flush stores the items of several calls in one transaction.
type Flush struct {
	calls []*Call
	// Partitions are the distinct partitions, in id order. sealed are the partitions with encrypted
	// payloads. bounded are the partitions of queues with a maxSize.
	Partitions, sealed, bounded []int64
	// epoch is the epoch of the partition ids. It is zero, which matches no epoch, if the calls have
	// different epochs.
	epoch queue.Epoch
	// inconsistent is set if two calls have different options of the same partition.
	inconsistent bool
	// Stored are the items to store. They are sorted by partition, so that Postgres writes neighbours
	// in the index together. Items of one partition keep their order.
	Stored []ItemRef
	// repeats maps an item that is a duplicate within the flush to the item that is stored.
	repeats map[ItemRef]ItemRef
	// storedBefore is set if an earlier try was committed and its answer was lost.
	storedBefore bool
}

// NewFlush returns a flush of calls whose partitions are open.
func NewFlush(calls []*Call) *Flush {
	f := &Flush{calls: calls, repeats: map[ItemRef]ItemRef{}}
	f.collectPartitions()
	f.collectItems()
	slices.SortStableFunc(f.Stored, func(a, b ItemRef) int { return cmp.Compare(a.Partition().Key, b.Partition().Key) })
	slices.Sort(f.Partitions)
	return f
}

func (f *Flush) collectPartitions() {
	known := map[int64]*queue.Partition{}
	for _, call := range f.calls {
		for _, p := range call.Opened {
			switch {
			case len(known) == 0:
				f.epoch = p.Epoch
			case f.epoch != p.Epoch:
				f.epoch = 0
			}
			if other := known[p.Key]; other != nil {
				f.inconsistent = f.inconsistent || other.Sealed != p.Sealed || other.Bounded != p.Bounded
				continue
			}
			known[p.Key] = p
			f.Partitions = append(f.Partitions, p.Key)
			if p.Sealed {
				f.sealed = append(f.sealed, p.Key)
			}
			if p.Bounded {
				f.bounded = append(f.bounded, p.Key)
			}
		}
	}
}

func (f *Flush) collectItems() {
	type dedupKey struct {
		partition     int64
		transactionID string
	}
	var seen map[dedupKey]ItemRef
	if len(f.calls) > 1 {
		seen = map[dedupKey]ItemRef{}
	}
	for _, call := range f.calls {
		for i := range call.Items {
			ref := ItemRef{call, i}
			if call.First[i] != i {
				f.repeats[ref] = ItemRef{call, call.First[i]}
				continue
			}
			if call.Named && seen != nil {
				key := dedupKey{ref.Partition().Key, call.Results[i].TransactionID}
				if earlier, ok := seen[key]; ok {
					f.repeats[ref] = earlier
					continue
				}
				seen[key] = ref
			}
			f.Stored = append(f.Stored, ref)
		}
	}
}

// flush stores the items of calls in one transaction. If the outcome of an earlier try is unknown,
// the flush detects it: messages with the ids of the flush are stored only if the earlier try was
// committed.
func (p *Pusher) flush(ctx context.Context, calls []*Call) ([]error, error) {
	ctx, cancel := p.Pool.Bounded(ctx)
	defer cancel()
	f := NewFlush(calls)
	if f.inconsistent {
		// The batch is split, and then each call learns from the database whether its options are
		// current.
		return nil, &pgconn.PgError{Code: postgres.PartitionGone, Message: "encryptionEnabled or maxSize of the queue was changed at the same time"}
	}
	err := p.store(ctx, f, pipeline.Confirmed(p.Pool.Pool), nil)
	if postgres.SQLState(err) == postgres.PartitionGone && p.Names.EpochEnded(ctx, f.epoch) {
		return slices.Repeat([]error{err}, len(calls)), nil // all calls have ids of the old epoch, so splitting is useless
	}
	return nil, err
}

// store stores the items of f in one transaction, wakes their partitions, and passes messages to
// waiting requests. taken are the ids of inbox rows that the transaction deletes first.
func (p *Pusher) store(ctx context.Context, f *Flush, send pipeline.SendFunc, taken []int64) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	steps := []string{"beginning a push"}
	if len(taken) > 0 {
		b.Queue(sqlInboxDelete, taken)
		steps = append(steps, "deleting rows of the inbox")
	}
	if err := f.QueueAppend(b, p.Sealer); err != nil {
		return err
	}
	b.Queue("COMMIT")
	handoff := p.newHandoff(f)
	defer handoff.Abandon()
	handoff.Queue(b)
	var ready []queue.Ready
	var committed bool
	err := send(ctx, b, func(results pgx.BatchResults) error {
		if err := pipeline.Skip(results, steps...); err != nil {
			return err
		}
		if err := f.readDuplicates(results); err != nil {
			return err
		}
		if err := pipeline.Skip(results, "committing a push"); err != nil {
			return err
		}
		committed = true
		ready = handoff.Read(results)
		return nil
	})
	handoff.Conclude(ctx, err)
	p.Waker.Announce(ready)
	if f.storedBefore {
		// The earlier try also ran a wake, whose answer was lost.
		p.Waker.Resync("an earlier try of a push was stored and its answer was lost")
	}
	if committed && !postgres.IsUnconfirmed(err) {
		return nil // the messages are stored, so a later error is not an error of the callers
	}
	return err
}

// newHandoff returns the wake of f with the claims for waiting requests. A flush of several
// partitions makes no claims, because a round of the dispatcher probes all these partitions with
// one query.
func (p *Pusher) newHandoff(f *Flush) *claim.Handoff {
	var waiting []queue.Handoff
	if len(f.Partitions) == 1 {
		only := f.calls[0].Opened[0]
		waiting = p.Handoffs(only.Queue, only.Name)
	}
	return p.Claims.NewHandoff(f.Partitions, waiting)
}

// ReadStored reads which items were already stored. It returns their message ids by index in
// Stored.
func (f *Flush) ReadStored(results pgx.BatchResults) (map[int]queue.ID, error) {
	var before map[int]queue.ID // usually nil
	var ord int64
	var id [16]byte
	err := pipeline.ForEach(results, "inserting messages", []any{&ord, &id}, func() error {
		if before == nil {
			before = map[int]queue.ID{}
		}
		before[int(ord-1)] = id
		return nil
	})
	return before, err
}

// readDuplicates marks the items that were already stored, and the duplicates within the flush.
func (f *Flush) readDuplicates(results pgx.BatchResults) error {
	before, err := f.ReadStored(results)
	if err != nil {
		return err
	}
	for _, ref := range f.Stored {
		ref.Result().MessageID, ref.Result().Duplicate = ref.ID(), false
	}
	for at, stored := range before {
		ref := f.Stored[at]
		// The database has the id of the flush itself if an earlier try was committed.
		ref.Result().MessageID, ref.Result().Duplicate = stored, ref.ID() != stored
		f.storedBefore = f.storedBefore || ref.ID() == stored
	}
	for repeat, original := range f.repeats {
		repeat.Result().Duplicate, repeat.Result().MessageID = true, original.Result().MessageID
	}
	return nil
}

// columns are the parameters of append.sql. They have one element per message, or per partition
// where noted. A column that no message uses stays empty, and unnest fills it with NULL.
type columns struct {
	counts                []int64              // by partition
	visibleUntil          []pgtype.Timestamptz // by partition
	partitions, nths      []int32
	ids                   [][16]byte
	transactions, payload []string
	traces                []pgtype.UUID
	subs, headers         []pgtype.Text
	visibleAt             []pgtype.Timestamptz
	encrypted             []bool
	// mayExist is set if a transaction id may already be stored.
	mayExist bool
}

// QueueAppend adds the statement that stores the messages to b, and marks the calls as tried. ReadStored or readDuplicates
// reads its result. It fails if a payload cannot be encrypted. Then b is unchanged.
func (f *Flush) QueueAppend(b *pgx.Batch, sealer *seal.Sealer) error {
	n := len(f.Stored)
	c := columns{
		counts: make([]int64, len(f.Partitions)), partitions: make([]int32, n), nths: make([]int32, n),
		ids: make([][16]byte, n), transactions: make([]string, n), payload: make([]string, n),
	}
	partition := 0
	for at, ref := range f.Stored {
		for f.Partitions[partition] != ref.Partition().Key {
			partition++
		}
		c.counts[partition]++
		c.partitions[at], c.nths[at] = int32(partition+1), int32(c.counts[partition])
		c.ids[at] = ref.ID()
		c.transactions[at] = ref.Result().TransactionID
		c.mayExist = c.mayExist || ref.call.Named || ref.call.Tried
		if err := c.setPayload(at, n, ref, sealer); err != nil {
			return err
		}
		c.setOptions(at, n, ref, partition)
	}
	for _, call := range f.calls {
		call.Tried = true
	}
	b.Queue(sqlAppend, f.Partitions, c.counts, pipeline.Array(c.visibleUntil), pipeline.Array(f.sealed), c.partitions, c.nths,
		c.ids, c.transactions, c.payload, pipeline.Array(c.traces), pipeline.Array(c.subs), pipeline.Array(c.visibleAt),
		pipeline.Array(c.encrypted), c.mayExist, pipeline.Array(f.bounded), int64(f.epoch), pipeline.Array(c.headers))
	return nil
}

// setPayload sets the payload of the message at index at of n. It encrypts the payload if the queue
// has encryptionEnabled.
func (c *columns) setPayload(at, n int, ref ItemRef, sealer *seal.Sealer) error {
	payload := ref.call.Items[ref.Item].Payload
	if ref.Partition().Sealed && !sealer.AllowsPlaintext() {
		sealed, err := sealer.Seal(payload, seal.Message{
			Queue: ref.Partition().Queue, Partition: ref.Partition().Name, ID: ref.ID(),
		})
		if err != nil {
			return fmt.Errorf("sealing a payload: %w", err)
		}
		payload = sealed
		set(&c.encrypted, n, at, true)
	}
	c.payload[at] = string(payload)
	return nil
}

// setOptions sets the optional columns of the message at index at of n.
func (c *columns) setOptions(at, n int, ref ItemRef, partition int) {
	item := &ref.call.Items[ref.Item]
	if !item.TraceID.IsZero() {
		set(&c.traces, n, at, pgtype.UUID{Bytes: item.TraceID, Valid: true})
	}
	if item.ProducerSub != "" {
		set(&c.subs, n, at, pgtype.Text{String: item.ProducerSub, Valid: true})
	}
	if item.Headers != nil {
		set(&c.headers, n, at, pgtype.Text{String: string(item.Headers), Valid: true})
	}
	if !item.VisibleAt.IsZero() {
		set(&c.visibleAt, n, at, pgtype.Timestamptz{Time: item.VisibleAt, Valid: true})
		if c.visibleUntil == nil || c.visibleUntil[partition].Time.Before(item.VisibleAt) {
			set(&c.visibleUntil, len(c.counts), partition, c.visibleAt[at])
		}
	}
}

// set sets a value of a column of n values, and creates the column at its first value.
func set[T any](column *[]T, n, at int, value T) {
	if *column == nil {
		*column = make([]T, n)
	}
	(*column)[at] = value
}
