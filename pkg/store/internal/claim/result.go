package claim

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/scanfloor"
)

// result is what a claim found and took.
type result struct {
	delivery queue.Delivery
	wasDue   bool
	// partitionOf is, by message, the id of its partition.
	partitionOf []int64
	// drained are the partitions that were due without a message in sight. needWake are the
	// partitions whose cursor was left without ready_at, or with the end of a retry delay of redriven
	// messages alone.
	drained, needWake []int64
	// expired and givenUp count messages that the claim skipped.
	expired, givenUp int64
	// undoHeads and undoRedrives are, with autoAck, by partition, what the claim overwrote: the
	// failures and deliveries of the first message of the log, and the redriven messages.
	undoHeads, undoRedrives map[int64]string
	// sealed is why a payload could not be opened. It fails this call alone.
	sealed error
	// saw is what the scan saw; its Now is zero when the scan moves no floors. leaseEnd is the end of
	// the leases, and leftReady what the claim left ready.
	saw       scanfloor.Observation
	leaseEnd  time.Time
	leftReady []queue.Ready

	attempts map[int64]int
}

// read reads the rows of one claim.
func (c *Claimer) read(rows pgx.Rows, one *call) error {
	defer rows.Close()
	one.attempts = map[int64]int{}
	for rows.Next() {
		var row claimRow
		if err := row.scan(rows); err != nil {
			return err
		}
		key := row.partition.Int64
		switch row.kind {
		case "group":
			one.wasDue = row.wasDue.Bool
			one.delivery.Gone = !row.groupExists.Bool
			one.delivery.DatabaseNow = row.createdAt.Time
			one.due(row.readyAt)
		case "tried":
			one.drained = append(one.drained, key)
		case "leased", "redelivered", "moved":
			if row.kind == "moved" {
				one.settled = true
			} else {
				one.attempts[key] = int(row.attempts.Int32)
			}
			switch row.kind {
			case "redelivered":
				one.undoRedrives[key] = string(row.payload)
			case "leased":
				one.undoHeads[key] = string(row.payload)
			}
			one.givenUp += row.seq.Int64
			if !row.readyAt.Valid || row.wasDue.Bool && (row.kind == "moved" || one.req.AutoAck) {
				one.needWake = append(one.needWake, key)
			}
			one.due(row.readyAt)
			switch {
			case !row.readyAt.Valid:
			case row.kind == "moved" || one.req.AutoAck:
				one.leftReady = append(one.leftReady, one.ready(key, row.readyAt.Time))
			default:
				one.leaseEnd = row.readyAt.Time
			}
		case "floor":
			one.saw = scanfloor.Observation{Now: one.delivery.DatabaseNow, Due: row.readyAt.Time, Next: row.createdAt.Time}
		case "aside":
			one.expired += row.seq.Int64
			one.givenUp += int64(row.attempts.Int32)
		case "message":
			if row.encrypted.Bool && one.sealed == nil {
				row.payload, one.sealed = c.Sealer.Open(row.payload)
			}
			one.partitionOf = append(one.partitionOf, key)
			attempt := one.attempts[key]
			if row.attempts.Valid {
				attempt = int(row.attempts.Int32)
			}
			one.delivery.Messages = append(one.delivery.Messages, row.message(attempt))
		}
	}
	one.delivery.Contested = one.wasDue && len(one.delivery.Messages) == 0
	one.delivery.Partitions = len(one.attempts)
	return rows.Err()
}

// due notes when something of the group is due.
func (one *call) due(at pgtype.Timestamptz) {
	if at.Valid {
		one.delivery.NoteDueIn(at.Time.Sub(one.delivery.DatabaseNow))
	}
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
