package claim

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// item is the kind of a row of belfry.claim. sql/schema/claim_row.sql describes all columns.
type item int16

// The items, in the order of the rows: each partition followed by its messages, then the summary.
const (
	itemPartition item = 1
	itemMessage   item = 2
	itemSummary   item = 3
)

// outcome is the result of a claim for one due partition.
type outcome int16

const (
	// outcomeLog means that the claim delivered messages of the log.
	outcomeLog outcome = 1
	// outcomeRedriven means that the claim delivered redriven messages.
	outcomeRedriven outcome = 2
	// outcomeNotDue means that no message is due any more. The claim has corrected ready_at.
	outcomeNotDue outcome = 3
	// outcomeDrained means that no message is visible, and that the cursor must be settled.
	outcomeDrained outcome = 4
	// outcomePaused means that the queue, the partition or the group is paused.
	outcomePaused outcome = 5
	// outcomeLimited means that the limits of the group allow no more before readyAt.
	outcomeLimited outcome = 6
)

// partition is a due partition with the result of the claim.
type partition struct {
	id      int64
	outcome outcome
	// readyAt is the ready_at of the cursor after the claim. With a lease it is the end of the lease.
	// It is zero if only a wake makes the cursor ready.
	readyAt time.Time
	// needsWake is set if a wake must follow the commit.
	needsWake pgtype.Bool
	// expired counts messages that the claim skipped because of expireAfterSeconds. givenUp counts
	// messages that became dead letters because of maxDeliveries.
	// skipped counts messages that the group skips because of maxDeliveries.
	expired, givenUp, skipped int64
	// undo is the data that queueUnconsume needs to undo an autoAck delivery.
	undo []byte
}

// delivered reports whether messages of the partition were delivered.
func (p *partition) delivered() bool {
	return p.outcome == outcomeLog || p.outcome == outcomeRedriven
}

// summary is the last row of a claim.
type summary struct {
	groupExists, wasDue              bool
	databaseNow                      time.Time
	nextReadyAt, dueFloor, nextFloor time.Time // zero: unknown
}

// rowReader reads the rows of one claim. It scans only the columns that the item of the row uses,
// which is faster than scanning all columns.
type rowReader struct {
	item      item
	partition partition
	// partitionOf is the partition of message.
	partitionOf int64
	message     queue.Message
	encrypted   bool
	summary     summary
	// itemOnly and columns are targets of Scan. itemOnly reads only the item. columns has the
	// targets of each item, with nil for columns that the item does not use.
	itemOnly []any
	columns  [itemSummary + 1][]any
}

func newRowReader() *rowReader {
	r := &rowReader{}
	p, m, s := &r.partition, &r.message, &r.summary
	own := [itemSummary + 1][]any{
		itemPartition: {
			(*int16)(&p.outcome), (*zeronull.Timestamptz)(&p.readyAt), &p.needsWake, (*zeronull.Int8)(&p.expired),
			(*zeronull.Int8)(&p.givenUp), (*zeronull.Int8)(&p.skipped), &p.undo,
		},
		itemMessage: {
			&m.Seq, (*[16]byte)(&m.ID), &m.TransactionID, (*zeronull.UUID)(&m.TraceID), (*[]byte)(&m.Payload), &m.CreatedAt,
			(*zeronull.Text)(&m.ProducerSub), (*[]byte)(&m.Headers), &r.encrypted, &m.Attempt,
		},
		itemSummary: {
			&s.groupExists, &s.wasDue, (*zeronull.Timestamptz)(&s.nextReadyAt), &s.databaseNow,
			(*zeronull.Timestamptz)(&s.dueFloor), (*zeronull.Timestamptz)(&s.nextFloor),
		},
	}
	ids := [itemSummary + 1]any{itemPartition: &p.id, itemMessage: &r.partitionOf}
	all := 2 + len(own[itemPartition]) + len(own[itemMessage]) + len(own[itemSummary])
	r.itemOnly = make([]any, all)
	r.itemOnly[0] = (*int16)(&r.item)
	at := 2
	for item := itemPartition; item <= itemSummary; item++ {
		r.columns[item] = make([]any, all)
		r.columns[item][1] = ids[item]
		copy(r.columns[item][at:], own[item])
		at += len(own[item])
	}
	return r
}

// next reads the next row.
func (r *rowReader) next(rows pgx.Rows) error {
	if err := rows.Scan(r.itemOnly...); err != nil {
		return err
	}
	if r.item < itemPartition || r.item > itemSummary {
		return fmt.Errorf("belfry.claim returned a row with the unknown item %d", r.item)
	}
	return rows.Scan(r.columns[r.item]...)
}

// result is the result of a claim.
type result struct {
	delivery queue.Delivery
	wasDue   bool
	// partitions are the due partitions. partitionOf has the partition id of each message.
	partitions  []partition
	partitionOf []int64
	// encrypted are the indexes of the messages whose payloads must be decrypted.
	encrypted []int
	// undecrypted are the partitions with a payload that cannot be decrypted.
	undecrypted []*queue.Partition
	// decryptedBefore is the number of messages of undecryptedPartition before its first message that
	// cannot be decrypted. The next claim takes only these messages.
	decryptedBefore      int
	undecryptedPartition int64
	// seen is the observation of the scan. seen.Now is zero if the scan moves no floors.
	seen scanfloor.Observation
	// limitedUntil is the instant before which the limits of the group allow no more. Zero: they may allow more now.
	limitedUntil time.Time
	// settled is set if the claim, or the settle after it, changed a due cursor without a message
	// to deliver. Then the next claim may find another cursor.
	settled bool
}

// logPartitionOf returns partitionOf, with 0 for each redriven message.
func (r *result) logPartitionOf() []int64 {
	partitionOf := r.partitionOf
	for _, p := range r.partitions {
		if p.outcome == outcomeRedriven {
			partitionOf = slices.Clone(partitionOf)
			for i, id := range partitionOf {
				if id == p.id {
					partitionOf[i] = 0
				}
			}
		}
	}
	return partitionOf
}

// read reads the rows of one claim.
func (c *Claimer) read(rows pgx.Rows, call *claimCall) error {
	defer rows.Close()
	r := newRowReader()
	for rows.Next() {
		if err := r.next(rows); err != nil {
			return err
		}
		switch r.item {
		case itemPartition:
			call.addPartition(r.partition)
		case itemMessage:
			if r.encrypted {
				call.encrypted = append(call.encrypted, len(call.partitionOf))
			}
			call.partitionOf = append(call.partitionOf, r.partitionOf)
			if !call.memory.use(r.message.AnswerSize()) {
				r.message.Payload = nil // the claim will be given back
			}
			call.delivery.Messages = append(call.delivery.Messages, r.message)
		case itemSummary:
			call.conclude(&r.summary)
		}
	}
	return rows.Err()
}

func (r *result) addPartition(p partition) {
	if p.outcome == outcomeLimited {
		r.limitedUntil = p.readyAt // the row describes the group, not the partition
		return
	}
	r.partitions = append(r.partitions, p)
	if p.delivered() {
		r.delivery.Partitions++
	}
	switch p.outcome {
	case outcomeNotDue:
		r.settled = true
	case outcomePaused:
		r.delivery.Paused = true
	default:
	}
}

// conclude adds the summary to the result.
func (r *result) conclude(s *summary) {
	d := &r.delivery
	r.wasDue = s.wasDue
	d.Gone = !s.groupExists
	d.DatabaseNow = s.databaseNow
	d.Contested = r.wasDue && len(d.Messages) == 0
	if !s.nextReadyAt.IsZero() {
		d.NoteDueIn(s.nextReadyAt.Sub(d.DatabaseNow))
	}
	for _, p := range r.partitions {
		if !p.readyAt.IsZero() {
			d.NoteDueIn(p.readyAt.Sub(d.DatabaseNow))
		}
	}
	if !r.limitedUntil.IsZero() {
		d.Limited, d.LimitedIn = true, r.limitedUntil.Sub(d.DatabaseNow)
	}
	if !s.dueFloor.IsZero() {
		r.seen = scanfloor.Observation{Now: d.DatabaseNow, Due: s.dueFloor, Next: s.nextFloor}
	}
}
