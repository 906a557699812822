package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// claim is one run of claim.sql: what it was asked, and what it brought.
type claim struct {
	req      *queue.PopRequest
	target   queue.Target
	delivery queue.Delivery
	wasDue   bool
	// settled: a cursor that was due without being poppable was put right.
	settled bool

	// partitionOf is, by message, the id of its partition.
	partitionOf []int64
	// tried are the partitions that were due without a message in sight, attempts
	// those that were claimed, asleep those left with ready_at NULL, or
	// at the end of a rest of redriven messages alone.
	tried, asleep []int64
	attempts      map[int64]int
	// expired and givenUp count messages that were set aside.
	expired, givenUp int64
	// redelivered are the partitions whose messages were redriven; with autoAck,
	// each with what takes that back.
	redelivered map[int64]string
	// heads are, with autoAck, the failures and deliveries of what came first in a
	// partition of the log, for the same purpose; a partition without any has none.
	heads map[int64]string
	// sealed is why a payload could not be opened: its own failure, and of none
	// that share its round.
	sealed error

	// view is where it looked, and found what it found out of the floors; its now is
	// zero when it did not look. leaseEnd is the end of its leases, left what it left
	// ready.
	view     view
	found    found
	leaseEnd time.Time
	left     []queue.Ready
	// back is what the lease of an earlier try held, when that was given back.
	back []queue.Ready

	// sent: it was tried before, and nobody knows with what outcome.
	sent bool
}

func newClaim(req *queue.PopRequest, target queue.Target) *claim {
	c := &claim{req: req, target: target}
	if !req.AutoAck {
		c.delivery.LeaseID = queue.NewID()
	}
	c.reset()
	return c
}

// reset makes the claim as if it had not been tried. All tries have one lease, so
// whatever they took is given back with it.
func (c *claim) reset() {
	*c = claim{
		req: c.req, target: c.target, sent: c.sent, attempts: map[int64]int{}, redelivered: map[int64]string{},
		heads:    map[int64]string{},
		delivery: queue.Delivery{Queue: c.req.Queue, Group: c.req.Group, LeaseID: c.delivery.LeaseID},
	}
}

// queueClaim adds claim.sql for c to b. Whoever names a partition needs no floor.
func (s *Store) queueClaim(b *pgx.Batch, c *claim) {
	if c.target.Partition == 0 {
		c.view = s.floors.begin(c.target.Group)
	}
	lease := pgtype.UUID{Bytes: c.delivery.LeaseID, Valid: !c.delivery.LeaseID.IsZero()}
	b.Queue(sqlClaim, c.target.Group, partitionArg(c.target), int64(c.req.Partitions), int64(c.req.Batch), lease,
		c.view.due, c.view.next, c.view.look, int64(c.target.Epoch))
}

func partitionArg(target queue.Target) pgtype.Int8 {
	return pgtype.Int8{Int64: target.Partition, Valid: target.Partition != 0}
}

// claimOne runs one claim together with those of others. A lease does not wait
// for the disk and a consumption does, so they do not share transactions.
func (s *Store) claimOne(ctx context.Context, req *queue.PopRequest, target queue.Target) (*claim, error) {
	c := newClaim(req, target)
	together := s.leases
	if req.AutoAck {
		together = s.takes
	}
	// Claims of one group skip each other's partitions; those of one partition
	// would only wait.
	var lanes []batch.LockStripe
	if target.Partition != 0 {
		lanes = []batch.LockStripe{batch.LockStripeOf(target.Partition)}
	}
	if err := together.Do(ctx, c, lanes, max(1, req.Batch)); err != nil {
		s.unanswered(err, false, c)
		return nil, err
	}
	if err := s.finishClaims(ctx, []*claim{c}); err != nil {
		s.unanswered(err, true, c)
		return nil, err
	}
	return c, c.sealed
}

// flushClaims runs claims in one transaction.
func (s *Store) flushClaims(ctx context.Context, claims []*claim) ([]error, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	b, read := s.claimBatch(claims)
	return nil, s.batch(ctx, b, read)
}

// Claim makes the claims of one round in one round trip, each with a lease of
// its own. The deliveries are in the order of the assignments; one without
// messages lost its partition to somebody else, or its group is gone. One whose
// messages cannot be opened is given back and called contested: a Pop says why.
// Errors: CodeUnavailable; leases that were taken all the same are given back by Run,
// or expire.
func (s *Store) Claim(ctx context.Context, assignments []queue.Assignment) ([]queue.Delivery, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	claims := make([]*claim, len(assignments))
	for i, a := range assignments {
		claims[i] = newClaim(a.Request, a.Target)
	}
	b, read := s.claimBatch(claims)
	err := s.urgentBatch(ctx, b, read)
	taken := err == nil
	if taken {
		err = s.finishClaims(ctx, claims)
	}
	if err != nil {
		s.unanswered(err, taken, claims...)
		return nil, postgres.Wrap(fmt.Errorf("claiming %d partitions: %w", len(assignments), err))
	}
	deliveries := make([]queue.Delivery, len(claims))
	for i, c := range claims {
		deliveries[i] = c.delivery
	}
	return deliveries, nil
}

// claimBatch returns the statements of claims, and what reads their results.
// What an earlier try may have leased is given back first: nobody else would,
// before the lease ends.
func (s *Store) claimBatch(claims []*claim) (*pgx.Batch, func(pgx.BatchResults) error) {
	b := &pgx.Batch{}
	var again []*claim
	for _, c := range claims {
		if c.sent {
			c.reset()
		}
		if c.sent && !c.req.AutoAck {
			b.Queue(sqlLeaseRelease, c.delivery.LeaseID)
			again = append(again, c)
		}
	}
	for _, c := range claims {
		c.sent = true
		s.queueClaim(b, c)
	}
	return b, func(results pgx.BatchResults) error {
		for _, c := range again {
			var err error
			if c.back, err = readyResult(results, "giving back what an earlier try may have leased"); err != nil {
				return err
			}
		}
		for _, c := range claims {
			rows, err := results.Query()
			if err != nil {
				return err
			}
			if err := s.readClaim(rows, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// readClaim reads the rows of one claim.
func (s *Store) readClaim(rows pgx.Rows, c *claim) error {
	defer rows.Close()
	for rows.Next() {
		var row claimRow
		if err := row.scan(rows); err != nil {
			return err
		}
		key := row.partition.Int64
		switch row.kind {
		case "group":
			c.wasDue = row.wasDue.Bool
			c.delivery.Gone = !row.groupExists.Bool
			c.delivery.DatabaseNow = row.createdAt.Time
			c.due(row.readyAt)
		case "tried":
			c.tried = append(c.tried, key)
		case "leased", "redelivered", "moved":
			if row.kind == "moved" {
				c.settled = true
			} else {
				c.attempts[key] = int(row.attempts.Int32)
			}
			switch row.kind {
			case "redelivered":
				c.redelivered[key] = string(row.payload)
			case "leased":
				c.heads[key] = string(row.payload)
			}
			c.givenUp += row.seq.Int64
			if !row.readyAt.Valid || row.wasDue.Bool && (row.kind == "moved" || c.req.AutoAck) {
				c.asleep = append(c.asleep, key)
			}
			c.due(row.readyAt)
			switch {
			case !row.readyAt.Valid:
			case row.kind == "moved" || c.req.AutoAck:
				at := row.readyAt.Time
				c.left = append(c.left, queue.Ready{Group: c.target.Group, Partition: key, In: at.Sub(c.delivery.DatabaseNow), At: at})
			default:
				c.leaseEnd = row.readyAt.Time
			}
		case "floor":
			c.found = found{now: c.delivery.DatabaseNow, due: row.readyAt.Time, next: row.createdAt.Time}
		case "aside":
			c.expired += row.seq.Int64
			c.givenUp += int64(row.attempts.Int32)
		case "message":
			if row.encrypted.Bool && c.sealed == nil {
				row.payload, c.sealed = s.sealer.Open(row.payload)
			}
			c.partitionOf = append(c.partitionOf, key)
			attempt := c.attempts[key]
			if row.attempts.Valid {
				attempt = int(row.attempts.Int32) // redelivered: each has its own
			}
			c.delivery.Messages = append(c.delivery.Messages, row.message(attempt))
		}
	}
	c.delivery.Contested = c.wasDue && len(c.delivery.Messages) == 0
	c.delivery.Partitions = len(c.attempts)
	c.delivery.ReceivedAt = time.Now()
	return rows.Err()
}

// due notes when something of the group is due. The row of the group, with the
// database's clock, comes first.
func (c *claim) due(at pgtype.Timestamptz) {
	if at.Valid {
		c.delivery.NoteDueIn(at.Time.Sub(c.delivery.DatabaseNow))
	}
}

// finishClaims does what follows the commit of claims: it gives back what
// cannot be delivered, wakes, settles and names the partitions.
func (s *Store) finishClaims(ctx context.Context, claims []*claim) error {
	var asleep []int64
	for _, c := range claims {
		asleep = append(asleep, c.asleep...)
		s.metrics.expired.Add(float64(c.expired))
		s.metrics.givenUp.Add(float64(c.givenUp))
		if !c.found.now.IsZero() && !c.delivery.Gone {
			s.floors.learn(c.target.Group, c.view, c.found)
		}
		if !c.leaseEnd.IsZero() {
			s.floors.leased(c.target.Group, c.leaseEnd)
		}
		s.floors.ready(c.left...)
		s.announce(c.back)
	}
	s.wake(ctx, asleep)
	for _, c := range claims {
		if c.sealed != nil {
			// Nobody gets these messages until the key is right.
			s.metrics.unopened.Inc()
			c.sealed = sealedError{fmt.Errorf("opening the payloads of queue %q: %w", c.req.Queue, c.sealed)}
			if err := s.giveBack(ctx, c); err != nil {
				s.log.Warn("messages that could not be opened were not given back", zap.String("queue", c.req.Queue), zap.Error(err))
			}
			c.delivery.Messages, c.delivery.Contested = nil, true
			continue
		}
		for _, key := range c.tried {
			if err := s.settle(ctx, key, c.target.Group); err != nil {
				return err
			}
			c.settled = true
		}
		if err := s.namePartitions(ctx, &c.delivery, c.target.Epoch, c.partitionOf); err != nil {
			return err
		}
		s.delivered.remember(&c.delivery, c.partitionOf)
	}
	return nil
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
	return rows.Scan(&r.kind, &r.partition, &r.groupExists, &r.wasDue, &r.readyAt, &r.attempts,
		&r.seq, &r.id, &r.transactionID, &r.traceID, &r.payload, &r.createdAt, &r.sub, &r.encrypted)
}

func (r *claimRow) message(attempt int) queue.Message {
	return queue.Message{
		Seq: r.seq.Int64, ID: r.id.Bytes, TransactionID: r.transactionID.String, TraceID: r.traceID.Bytes,
		Payload: r.payload, ProducerSub: r.sub.String, CreatedAt: r.createdAt.Time, Attempt: attempt,
	}
}
