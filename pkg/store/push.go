package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
)

// Push stores items in one transaction and returns their results in the same
// order, after its COMMIT. Queues and partitions that do not exist are created.
//
// Errors: CodeInvalid when the database refuses a value, CodeUnavailable when
// it cannot be reached; then either everything or nothing was stored, and a
// repetition with the same transaction ids is safe.
func (s *Store) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	p := newPush(items)
	// A partition that was deleted since it was remembered is looked up again.
	for attempt := 0; ; attempt++ {
		err := s.push(ctx, p)
		if err == nil {
			return p.results, nil
		}
		if attempt == 3 || postgres.SQLState(err) != postgres.PartitionGone {
			return nil, postgres.Wrap(err)
		}
		s.names.forget(p.lanes)
	}
}

// push is one call of Push on its way.
type push struct {
	items   []queue.PushItem
	results []queue.PushResult
	// lanes are the distinct partitions; lane is the index into it by item.
	lanes []laneName
	lane  []int
	// first is, by item, the item of this call with the same (partition,
	// transaction id); an item that is its own first is stored.
	first []int
}

func newPush(items []queue.PushItem) *push {
	type dedupKey struct {
		lane          int
		transactionID string
	}
	p := &push{
		items: items, results: make([]queue.PushResult, len(items)),
		lane: make([]int, len(items)), first: make([]int, len(items)),
	}
	laneIndex := make(map[laneName]int)
	seen := make(map[dedupKey]int, len(items))
	for i := range items {
		item := &items[i]
		name := laneName{item.Queue, item.Partition}
		lane, ok := laneIndex[name]
		if !ok {
			lane = len(p.lanes)
			laneIndex[name] = lane
			p.lanes = append(p.lanes, name)
		}
		p.lane[i] = lane
		transactionID := item.TransactionID
		if transactionID == "" {
			transactionID = uuid.NewString()
		}
		p.results[i] = queue.PushResult{MessageID: queue.NewID(), TransactionID: transactionID}
		key := dedupKey{lane, transactionID}
		if earlier, ok := seen[key]; ok {
			p.first[i] = earlier
		} else {
			seen[key] = i
			p.first[i] = i
		}
	}
	return p
}

func (s *Store) push(ctx context.Context, p *push) error {
	opened, err := s.open(ctx, p.lanes)
	if err != nil {
		return err
	}
	keys := make([]int64, len(p.lanes))
	locks := make([]lock, len(p.lanes))
	for i, name := range p.lanes {
		keys[i] = opened[name].Key
		locks[i] = lock{opened[name].Key, opened[name].Sealed}
	}
	// Sorted by partition, so that neighbours in the index are written together.
	order := make([]int, 0, len(p.items))
	for i := range p.items {
		p.results[i].PartitionID = opened[p.lanes[p.lane[i]]].ID
		if p.first[i] == i {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[p.lane[a]], keys[p.lane[b]]) })
	args, err := p.columns(order, locks, s.sealer)
	if err != nil {
		return err
	}
	slices.SortFunc(locks, func(a, b lock) int { return cmp.Compare(a.partition, b.partition) })
	sealed := make([]bool, len(locks))
	for i, l := range locks {
		keys[i], sealed[i] = l.partition, l.sealed
	}

	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(sqlPushLock, keys, sealed)
	b.Queue(sqlPushInsert, args...)
	b.Queue("COMMIT")
	handed := s.handoffs(p.lanes)
	handed.queue(b, keys)
	var ready []queue.Ready
	var committed bool
	err = s.batch(ctx, b, func(results pgx.BatchResults) error {
		if err := skip(results, "beginning a push"); err != nil {
			return err
		}
		if err := skip(results, fmt.Sprintf("locking %d partitions", len(keys))); err != nil {
			return err
		}
		if err := p.readDuplicates(results, order); err != nil {
			return err
		}
		if err := skip(results, "committing a push"); err != nil {
			return err
		}
		committed = true
		ready = handed.read(results, len(keys))
		return nil
	})
	handed.conclude(ctx)
	s.announce(ready)
	if committed {
		return nil // whatever failed after that is not the caller's
	}
	return err
}

// lock is a partition as push_lock.sql takes it.
type lock struct {
	partition int64
	sealed    bool
}

// columns turns the items at order into the arrays of push_insert.sql. A column
// nobody uses stays empty, and unnest fills it with NULL.
func (p *push) columns(order []int, lanes []lock, sealer *seal.Sealer) ([]any, error) {
	n := len(order)
	partitions, ids := make([]int64, n), make([][16]byte, n)
	transactions, payloads := make([]string, n), make([]string, n)
	traces, subs, visible := make([]pgtype.UUID, n), make([]pgtype.Text, n), make([]pgtype.Timestamptz, n)
	encrypted := make([]bool, n)
	var hasTrace, hasSub, hasVisible, hasSealed bool
	for at, i := range order {
		item := &p.items[i]
		partitions[at] = lanes[p.lane[i]].partition
		ids[at] = p.results[i].MessageID
		transactions[at] = p.results[i].TransactionID
		payload := []byte(item.Payload)
		if lanes[p.lane[i]].sealed && sealer != nil {
			var err error
			if payload, err = sealer.Seal(payload); err != nil {
				return nil, fmt.Errorf("sealing a payload: %w", err)
			}
			encrypted[at], hasSealed = true, true
		}
		payloads[at] = string(payload)
		traces[at] = pgtype.UUID{Bytes: item.TraceID, Valid: !item.TraceID.IsZero()}
		subs[at] = pgtype.Text{String: item.ProducerSub, Valid: item.ProducerSub != ""}
		visible[at] = pgtype.Timestamptz{Time: item.VisibleAt, Valid: !item.VisibleAt.IsZero()}
		hasTrace = hasTrace || traces[at].Valid
		hasSub = hasSub || subs[at].Valid
		hasVisible = hasVisible || visible[at].Valid
	}
	return []any{
		partitions, ids, transactions, payloads,
		only(hasTrace, traces), only(hasSub, subs), only(hasVisible, visible), only(hasSealed, encrypted),
	}, nil
}

func only[T any](used bool, column []T) []T {
	if used {
		return column
	}
	return []T{}
}

// readDuplicates marks the items that were stored before, and those that repeat
// an earlier item of the same call.
func (p *push) readDuplicates(results pgx.BatchResults, order []int) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("inserting %d messages: %w", len(order), err)
	}
	for rows.Next() {
		var place int64
		var stored [16]byte
		if err := rows.Scan(&place, &stored); err != nil {
			rows.Close()
			return fmt.Errorf("reading duplicates: %w", err)
		}
		result := &p.results[order[place-1]]
		result.Duplicate, result.MessageID = true, stored
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("inserting %d messages: %w", len(order), err)
	}
	for i, first := range p.first {
		if first != i {
			p.results[i].Duplicate, p.results[i].MessageID = true, p.results[first].MessageID
		}
	}
	return nil
}
