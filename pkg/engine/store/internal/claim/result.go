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

// item says what a row of belfry.claim describes. sql/schema/claim_row.sql describes all columns.
type item int16

// The items, in the order of the rows: each partition followed by its messages, then the summary.
const (
	itemPartition item = 1
	itemMessage   item = 2
	itemSummary   item = 3
)

// outcome says what a claim did to a partition that was due.
type outcome int16

const (
	// outcomeLog: it delivered messages of the log.
	outcomeLog outcome = 1
	// outcomeRedriven: it delivered redriven messages.
	outcomeRedriven outcome = 2
	// outcomeNotDue: nothing is due any more; ready_at was corrected.
	outcomeNotDue outcome = 3
	// outcomeDrained: no message is visible, and the cursor must be settled.
	outcomeDrained outcome = 4
	// outcomePaused: the queue or the group is paused.
	outcomePaused outcome = 5
)

// partition is a partition that was due, and what the claim did to it.
type partition struct {
	id      int64
	outcome outcome
	// readyAt is when the cursor is ready after the claim: with a lease, when the lease ends. Zero: not
	// before a wake.
	readyAt time.Time
	// needsWake: a wake must follow the commit.
	needsWake pgtype.Bool
	// expired and givenUp count messages that the claim moved past.
	expired, givenUp int64
	// undo is what an undo of an autoAck delivery needs; see internal/claim/lease.go.
	undo []byte
}

// delivered says whether messages of the partition were delivered.
func (p *partition) delivered() bool {
	return p.outcome == outcomeLog || p.outcome == outcomeRedriven
}

// summary is the last row.
type summary struct {
	groupExists, wasDue              bool
	databaseNow                      time.Time
	nextReadyAt, dueFloor, nextFloor time.Time // zero: unknown
}

// rowReader reads the rows of one claim. Reading only the columns of a row's item is faster than
// reading all of them.
type rowReader struct {
	item      item
	partition partition
	// partitionOf is the partition of message.
	partitionOf int64
	message     queue.Message
	encrypted   bool
	summary     summary
	// itemOnly, and by item the columns of the item: what Scan fills, with nil for other columns.
	itemOnly []any
	columns  [itemSummary + 1][]any
}

func newRowReader() *rowReader {
	r := &rowReader{}
	p, m, s := &r.partition, &r.message, &r.summary
	own := [itemSummary + 1][]any{
		itemPartition: {
			(*int16)(&p.outcome), (*zeronull.Timestamptz)(&p.readyAt), &p.needsWake, (*zeronull.Int8)(&p.expired),
			(*zeronull.Int8)(&p.givenUp), &p.undo,
		},
		itemMessage: {
			&m.Seq, (*[16]byte)(&m.ID), &m.TransactionID, (*zeronull.UUID)(&m.TraceID), (*[]byte)(&m.Payload), &m.CreatedAt,
			(*zeronull.Text)(&m.ProducerSub), &r.encrypted, &m.Attempt,
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

// result is what a claim found and took.
type result struct {
	delivery queue.Delivery
	wasDue   bool
	// partitions are the partitions that were due, and partitionOf is, by message, the id of its
	// partition.
	partitions  []partition
	partitionOf []int64
	// encrypted are the indexes of the messages whose payloads must be decrypted.
	encrypted []int
	// undecrypted are the partitions with a payload that cannot be decrypted.
	undecrypted []*queue.Partition
	// decryptedBefore is how many messages of undecryptedPartition come before the first one that cannot be
	// decrypted. They are claimed again without it.
	decryptedBefore      int
	undecryptedPartition int64
	// seen is what the scan saw; its Now is zero when the scan moves no floors.
	seen scanfloor.Observation
	// settled: the claim or the settling after it changed a cursor that was due without anything
	// poppable, so the next claim may find something else.
	settled bool
}

// logPartitionOf is partitionOf without the redriven messages, whose partition is 0.
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

// conclude completes the result with the summary.
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
	if !s.dueFloor.IsZero() {
		r.seen = scanfloor.Observation{Now: d.DatabaseNow, Due: s.dueFloor, Next: s.nextFloor}
	}
}
