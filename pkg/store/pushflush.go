package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// place is an item of one of the calls that are flushed together.
type place struct {
	call *push
	item int
}

func (p place) result() *queue.PushResult { return &p.call.results[p.item] }

func (p place) id() queue.ID { return p.call.ids[p.item] }

func (p place) partition() *queue.Partition { return p.call.opened[p.call.lane[p.item]] }

// pushFlush is what a number of calls of Push store in one transaction.
type pushFlush struct {
	calls []*push
	// partitions are the distinct partitions, in id order, sealed those of them
	// whose payloads are, and bounded those whose queue has a maxSize.
	partitions, sealed, bounded []int64
	// life is that of the database in which they are what they are; zero, which is none,
	// when the calls do not agree.
	life queue.Epoch
	// torn: the calls do not agree on what a partition is.
	torn bool
	// stored are the items to store, sorted by partition so that neighbours in
	// the index are written together; a partition's in the order they came.
	stored []place
	// repeats are, of items that are not stored, the item that is.
	repeats map[place]place
	// again: an earlier try was committed after all.
	again bool
}

func newPushFlush(calls []*push) *pushFlush {
	type dedupKey struct {
		partition     int64
		transactionID string
	}
	f := &pushFlush{calls: calls, repeats: map[place]place{}}
	known := map[int64]*queue.Partition{}
	var seen map[dedupKey]place
	if len(calls) > 1 {
		seen = map[dedupKey]place{}
	}
	for _, call := range calls {
		for _, p := range call.opened {
			switch {
			case len(known) == 0:
				f.life = p.Epoch
			case f.life != p.Epoch:
				f.life = 0
			}
			if was := known[p.Key]; was != nil {
				f.torn = f.torn || was.Sealed != p.Sealed || was.Bounded != p.Bounded
				continue
			}
			known[p.Key] = p
			f.partitions = append(f.partitions, p.Key)
			if p.Sealed {
				f.sealed = append(f.sealed, p.Key)
			}
			if p.Bounded {
				f.bounded = append(f.bounded, p.Key)
			}
		}
		for i := range call.items {
			at := place{call, i}
			if call.first[i] != i {
				f.repeats[at] = place{call, call.first[i]}
				continue
			}
			if call.named && seen != nil {
				key := dedupKey{at.partition().Key, call.results[i].TransactionID}
				if earlier, ok := seen[key]; ok {
					f.repeats[at] = earlier
					continue
				}
				seen[key] = at
			}
			f.stored = append(f.stored, at)
		}
	}
	slices.SortStableFunc(f.stored, func(a, b place) int { return cmp.Compare(a.partition().Key, b.partition().Key) })
	slices.Sort(f.partitions)
	return f
}

// flushPushes stores the items of calls in one transaction. When the outcome of
// an earlier try is unknown it is found out: what is stored under our own
// message ids was stored by us.
func (s *Store) flushPushes(ctx context.Context, calls []*push) ([]error, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	f := newPushFlush(calls)
	if f.torn {
		// Each will hear from the database whether it is right.
		return nil, &pgconn.PgError{Code: postgres.PartitionGone, Message: "the queue's encryption or maxSize was switched just now"}
	}
	err := s.store(ctx, f, s.batch, nil)
	if postgres.SQLState(err) == postgres.PartitionGone && s.ended(ctx, f.life) {
		return slices.Repeat([]error{err}, len(calls)), nil // each is as wrong as all
	}
	return nil, err
}

// sendFunc sends a batch on some connection; see Store.batch.
type sendFunc func(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) error

// store stores what f holds in one transaction, wakes, and hands over what
// somebody waits for. The transaction first removes the rows taken from the inbox,
// if there are any.
func (s *Store) store(ctx context.Context, f *pushFlush, send sendFunc, taken []int64) error {
	args, err := f.columns(s)
	if err != nil {
		return err
	}
	for _, call := range f.calls {
		call.tried = true
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	if len(taken) > 0 {
		b.Queue(sqlInboxTake, taken)
	}
	b.Queue(sqlAppend, args...)
	b.Queue("COMMIT")
	handed := s.newHandoffs(f)
	handed.queue(b, f.partitions)
	var ready []queue.Ready
	var committed bool
	err = send(ctx, b, func(results pgx.BatchResults) error {
		if err := skip(results, "beginning a push"); err != nil {
			return err
		}
		if len(taken) > 0 {
			if err := skip(results, "taking rows from the inbox"); err != nil {
				return err
			}
		}
		if err := f.readDuplicates(results); err != nil {
			return err
		}
		if err := skip(results, "committing a push"); err != nil {
			return err
		}
		committed = true
		ready = handed.read(results, len(f.partitions))
		return nil
	})
	handed.conclude(ctx, f.partitions, err)
	s.announce(ready)
	if f.again {
		// The wake of that try was its own as well, and its answer is lost.
		s.resync("a push had been stored by a try without an answer")
	}
	if committed {
		return nil // whatever failed after that is not the callers'
	}
	return err
}

// columns turns the items into the arguments of append.sql. A column nobody uses
// stays empty, and unnest fills it with NULL.
func (f *pushFlush) columns(s *Store) ([]any, error) {
	n := len(f.stored)
	counts, lanes, nths := make([]int64, len(f.partitions)), make([]int32, n), make([]int32, n)
	ids := make([][16]byte, n)
	transactions, payloads := make([]string, n), make([][]byte, n)
	var traces []pgtype.UUID
	var subs []pgtype.Text
	var visible, visibleUntil []pgtype.Timestamptz
	var encrypted []bool
	look := false
	lane := 0
	for at, p := range f.stored {
		item, partition := &p.call.items[p.item], p.partition()
		for f.partitions[lane] != partition.Key {
			lane++
		}
		counts[lane]++
		lanes[at], nths[at] = int32(lane+1), int32(counts[lane])
		ids[at] = p.id()
		transactions[at] = p.result().TransactionID
		payloads[at] = item.Payload
		look = look || p.call.named || p.call.tried
		if partition.Sealed && s.sealer != nil {
			sealed, err := s.sealer.Seal(item.Payload)
			if err != nil {
				return nil, fmt.Errorf("sealing a payload: %w", err)
			}
			payloads[at] = sealed
			encrypted = column(encrypted, n)
			encrypted[at] = true
		}
		if !item.TraceID.IsZero() {
			traces = column(traces, n)
			traces[at] = pgtype.UUID{Bytes: item.TraceID, Valid: true}
		}
		if item.ProducerSub != "" {
			subs = column(subs, n)
			subs[at] = pgtype.Text{String: item.ProducerSub, Valid: true}
		}
		if !item.VisibleAt.IsZero() {
			visible = column(visible, n)
			visible[at] = pgtype.Timestamptz{Time: item.VisibleAt, Valid: true}
			visibleUntil = column(visibleUntil, len(f.partitions))
			if visibleUntil[lane].Time.Before(item.VisibleAt) {
				visibleUntil[lane] = visible[at]
			}
		}
	}
	return []any{
		f.partitions, counts, used(visibleUntil), used(f.sealed), lanes, nths,
		ids, transactions, texts(payloads), used(traces), used(subs), used(visible), used(encrypted), look,
		used(f.bounded), int64(f.life),
	}, nil
}

// column makes a column at its first value.
func column[T any](c []T, n int) []T {
	if c == nil {
		return make([]T, n)
	}
	return c
}

// used turns a column nobody used into an empty one, not NULL.
func used[T any](c []T) []T {
	if c == nil {
		return []T{}
	}
	return c
}

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// readDuplicates marks the items that were stored before, and those that repeat
// another one of the same flush.
func (f *pushFlush) readDuplicates(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("inserting %d messages: %w", len(f.stored), err)
	}
	for _, p := range f.stored {
		p.result().MessageID, p.result().Duplicate = p.id(), false
	}
	var at int64
	var stored [16]byte
	_, err = pgx.ForEachRow(rows, []any{&at, &stored}, func() error {
		p := f.stored[at-1]
		// Our own id is there when an earlier try was committed after all.
		p.result().MessageID, p.result().Duplicate = stored, p.id() != stored
		f.again = f.again || p.id() == stored
		return nil
	})
	if err != nil {
		return fmt.Errorf("inserting %d messages: %w", len(f.stored), err)
	}
	for repeat, original := range f.repeats {
		repeat.result().Duplicate, repeat.result().MessageID = true, original.result().MessageID
	}
	return nil
}
