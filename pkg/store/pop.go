package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Pop looks once and returns what it claimed, or a Delivery without messages
// when nothing was poppable (I8). A queue or partition that does not exist is
// empty, not an error. req.Wait is not its business.
//
// Errors: CodeUnavailable; a lease that was taken all the same expires.
func (s *Store) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	var delivery queue.Delivery
	var err error
	if req.Tags != nil {
		delivery, err = s.popTagged(ctx, req)
	} else {
		delivery, err = s.pop(ctx, req)
	}
	return delivery, postgres.Wrap(err)
}

// popTagged pops from the matching queue that has been due the longest.
func (s *Store) popTagged(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	matches, err := s.matches(ctx, req)
	if err != nil {
		return queue.Delivery{}, err
	}
	for _, m := range matches {
		if m.joined && !m.due {
			continue
		}
		one := *req
		one.Queue, one.Tags = m.queue, nil
		delivery, err := s.pop(ctx, &one)
		if err != nil || len(delivery.Messages) > 0 {
			return delivery, err
		}
	}
	return queue.Delivery{Group: req.Group}, nil
}

func (s *Store) pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	empty := queue.Delivery{Queue: req.Queue, Group: req.Group}
	for {
		keys, ok, err := s.group(ctx, req)
		if err != nil || !ok {
			return empty, err
		}
		claim, err := s.claim(ctx, req, keys)
		if err != nil {
			return empty, fmt.Errorf("claiming from queue %q for group %q: %w", req.Queue, req.Group, err)
		}
		switch {
		case len(claim.delivery.Messages) > 0:
			return claim.delivery, nil
		case !claim.groupExists:
			// Deleted since it was remembered; perhaps made anew.
			s.names.forgetGroup(nameOf(req.Queue, req))
		case claim.settled:
			// Something due was not poppable after all; something else may be.
		case claim.wasDue:
			// A rival holds what is due. Once it is done there may be more.
			if _, err := s.pool.Exec(ctx, sqlClaimWait, keys.group, partitionArg(keys)); err != nil {
				return empty, fmt.Errorf("waiting for a rival pop of queue %q: %w", req.Queue, err)
			}
		default:
			return empty, nil
		}
	}
}

func partitionArg(keys groupKeys) pgtype.Int8 {
	return pgtype.Int8{Int64: keys.partition, Valid: keys.partition != 0}
}

// claim is what one run of claim.sql brought.
type claim struct {
	delivery    queue.Delivery
	groupExists bool
	wasDue      bool
	// settled: a cursor that was due without being poppable was put right.
	settled bool
}

func (s *Store) claim(ctx context.Context, req *queue.PopRequest, keys groupKeys) (claim, error) {
	c := claim{delivery: queue.Delivery{Queue: req.Queue, Group: req.Group}}
	lease := pgtype.UUID{}
	if !req.AutoAck {
		c.delivery.LeaseID = queue.NewID()
		lease = pgtype.UUID{Bytes: c.delivery.LeaseID, Valid: true}
	}
	rows, err := s.pool.Query(ctx, sqlClaim, keys.group, partitionArg(keys), int64(req.Partitions), int64(req.Batch), lease)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	// asleep: left with ready_at NULL, so a wake must follow.
	var tried, asleep []int64
	attempts := map[int64]int{}
	var sealed error
	partitionOf := make([]int64, 0, min(req.Batch, 1000))
	for rows.Next() {
		var row claimRow
		if err := row.scan(rows); err != nil {
			return c, err
		}
		key := row.partition.Int64
		switch row.kind {
		case "group":
			c.groupExists, c.wasDue = row.groupExists.Bool, row.wasDue.Bool
		case "tried":
			tried = append(tried, key)
		case "leased", "moved":
			if row.kind == "leased" {
				attempts[key] = int(row.attempts.Int32)
			} else {
				c.settled = true
			}
			if !row.readyAt.Valid {
				asleep = append(asleep, key)
			}
		case "message":
			partitionOf = append(partitionOf, key)
			if row.encrypted.Bool {
				row.payload, err = s.sealer.Open(row.payload)
				sealed = errors.Join(sealed, err)
			}
			c.delivery.Messages = append(c.delivery.Messages, row.message(attempts[key]))
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return c, err
	}
	c.delivery.Partitions = len(attempts)
	if sealed != nil {
		// Nobody gets these messages until the key is right: give them back.
		return c, errors.Join(fmt.Errorf("opening payloads: %w", sealed), s.giveBack(ctx, &c.delivery, keys.group, partitionOf))
	}
	s.wake(ctx, asleep)
	for _, key := range tried {
		if _, leased := attempts[key]; leased {
			continue
		}
		if err := s.settle(ctx, key, keys.group); err != nil {
			return c, err
		}
		c.settled = true
	}
	return c, s.namePartitions(ctx, &c.delivery, partitionOf)
}

// claimRow is one row of claim.sql.
type claimRow struct {
	kind                string
	partition, seq      pgtype.Int8
	groupExists, wasDue pgtype.Bool
	readyAt, createdAt  pgtype.Timestamptz
	attempts            pgtype.Int4
	id, traceID         pgtype.UUID
	transactionID, sub  pgtype.Text
	payload             []byte
	encrypted           pgtype.Bool
}

func (r *claimRow) scan(rows pgx.Rows) error {
	return rows.Scan(&r.kind, &r.partition, &r.groupExists, &r.wasDue, nil, &r.readyAt, &r.attempts,
		&r.seq, &r.id, &r.transactionID, &r.traceID, &r.payload, &r.createdAt, &r.sub, &r.encrypted)
}

func (r *claimRow) message(attempt int) queue.Message {
	return queue.Message{
		Seq: r.seq.Int64, ID: r.id.Bytes, TransactionID: r.transactionID.String, TraceID: r.traceID.Bytes,
		Payload: r.payload, ProducerSub: r.sub.String, CreatedAt: r.createdAt.Time, Attempt: attempt,
	}
}

// namePartitions fills in the partitions of the messages; by holds their ids.
func (s *Store) namePartitions(ctx context.Context, d *queue.Delivery, by []int64) error {
	if len(by) == 0 {
		return nil
	}
	distinct := make([]int64, 0, d.Partitions)
	for i, key := range by {
		if i == 0 || key != by[i-1] {
			distinct = append(distinct, key)
		}
	}
	named, err := s.byKeys(ctx, distinct)
	if err != nil {
		return err
	}
	kept := d.Messages[:0]
	for i := range d.Messages {
		// A partition without a name was deleted while it was being claimed.
		if p := named[by[i]]; p != nil {
			d.Messages[i].Partition = p
			kept = append(kept, d.Messages[i])
		}
	}
	d.Messages = kept
	return nil
}

// settle looks again, under the lock and with a newer snapshot, at a cursor
// that was due although no message was in sight. Either a push committed since,
// and the next claim sees it; or only holes and dead letters are left, and the
// cursor moves past them.
func (s *Store) settle(ctx context.Context, partition, group int64) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(sqlSettleLock, partition, group)
	b.Queue(sqlSettle, partition, group)
	b.Queue("COMMIT")
	b.Queue(sqlWake, []int64{partition})
	return s.batch(ctx, b, func(results pgx.BatchResults) error {
		for _, step := range []string{"beginning", "locking", "moving", "committing", "waking"} {
			if err := skip(results, fmt.Sprintf("settling the cursor of group %d in partition %d: %s", group, partition, step)); err != nil {
				return err
			}
		}
		return nil
	})
}
