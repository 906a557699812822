package claim

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/scanfloor"
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
)

// row is one row of belfry.claim. Only the columns of its item are set.
type row struct {
	item        item
	partition   pgtype.Int8 // of a partition and a message
	ofPartition partitionColumns
	ofMessage   messageColumns
	ofSummary   summaryColumns
}

type partitionColumns struct {
	outcome          pgtype.Int2
	readyAt          pgtype.Timestamptz
	needsWake        pgtype.Bool
	expired, givenUp pgtype.Int8
	undo             []byte
}

type messageColumns struct {
	seq           pgtype.Int8
	id            pgtype.UUID
	transactionID pgtype.Text
	traceID       pgtype.UUID
	payload       []byte
	createdAt     pgtype.Timestamptz
	producerSub   pgtype.Text
	encrypted     pgtype.Bool
	attempt       pgtype.Int4
}

type summaryColumns struct {
	groupExists, wasDue      pgtype.Bool
	nextReadyAt, databaseNow pgtype.Timestamptz
	dueFloor, nextFloor      pgtype.Timestamptz
}

// rowReader reads rows of one claim. Reading only the columns of a row's item is faster than reading
// all of them.
type rowReader struct {
	row
	// itemOnly, and by item the columns of the item: what Scan fills, with nil for other columns.
	itemOnly []any
	columns  [itemSummary + 1][]any
}

func newRowReader() *rowReader {
	r := &rowReader{}
	p, m, s := &r.ofPartition, &r.ofMessage, &r.ofSummary
	own := [itemSummary + 1][]any{
		itemPartition: {&p.outcome, &p.readyAt, &p.needsWake, &p.expired, &p.givenUp, &p.undo},
		itemMessage: {
			&m.seq, &m.id, &m.transactionID, &m.traceID, &m.payload, &m.createdAt, &m.producerSub, &m.encrypted, &m.attempt,
		},
		itemSummary: {&s.groupExists, &s.wasDue, &s.nextReadyAt, &s.databaseNow, &s.dueFloor, &s.nextFloor},
	}
	all := 2 + len(own[itemPartition]) + len(own[itemMessage]) + len(own[itemSummary])
	r.itemOnly = make([]any, all)
	r.itemOnly[0] = &r.item
	at := 2
	for item := itemPartition; item <= itemSummary; item++ {
		r.columns[item] = make([]any, all)
		r.columns[item][1] = &r.partition
		copy(r.columns[item][at:], own[item])
		at += len(own[item])
	}
	return r
}

// next reads the next row into r.row.
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
	// sealed is why a payload could not be opened. It fails this call alone.
	sealed error
	// saw is what the scan saw; its Now is zero when the scan moves no floors.
	saw scanfloor.Observation
	// settled: the claim or the settling after it changed a cursor that was due without anything
	// poppable, so the next claim may find something else.
	settled bool
}

// partition is a partition that was due, and what the claim did to it.
type partition struct {
	id      int64
	outcome outcome
	// readyAt is when the cursor is ready after the claim: with a lease, when the lease ends. Zero: not
	// before a wake.
	readyAt time.Time
	// needsWake: a wake must follow the commit.
	needsWake bool
	// expired and givenUp count messages that the claim moved past.
	expired, givenUp int64
	// undo is what an undo of an autoAck delivery needs; see internal/claim/lease.go.
	undo string
}

// delivered says whether messages of the partition were delivered.
func (p *partition) delivered() bool {
	return p.outcome == outcomeLog || p.outcome == outcomeRedriven
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
func (c *Claimer) read(rows pgx.Rows, one *call) error {
	defer rows.Close()
	r := newRowReader()
	for rows.Next() {
		if err := r.next(rows); err != nil {
			return err
		}
		switch r.item {
		case itemPartition:
			one.addPartition(r.partition.Int64, &r.ofPartition)
		case itemMessage:
			if r.ofMessage.encrypted.Bool && one.sealed == nil {
				r.ofMessage.payload, one.sealed = c.Sealer.Open(r.ofMessage.payload)
			}
			one.partitionOf = append(one.partitionOf, r.partition.Int64)
			one.delivery.Messages = append(one.delivery.Messages, r.ofMessage.message())
		case itemSummary:
			one.conclude(&r.ofSummary)
		}
	}
	return rows.Err()
}

func (r *result) addPartition(id int64, columns *partitionColumns) {
	p := partition{
		id: id, outcome: outcome(columns.outcome.Int16), readyAt: columns.readyAt.Time, needsWake: columns.needsWake.Bool,
		expired: columns.expired.Int64, givenUp: columns.givenUp.Int64, undo: string(columns.undo),
	}
	r.partitions = append(r.partitions, p)
	if p.delivered() {
		r.delivery.Partitions++
	}
	if p.outcome == outcomeNotDue {
		r.settled = true
	}
}

func (m *messageColumns) message() queue.Message {
	return queue.Message{
		Seq: m.seq.Int64, ID: m.id.Bytes, TransactionID: m.transactionID.String, TraceID: m.traceID.Bytes,
		Payload: m.payload, ProducerSub: m.producerSub.String, CreatedAt: m.createdAt.Time, Attempt: int(m.attempt.Int32),
	}
}

// conclude completes the result with the summary, which is the last row.
func (r *result) conclude(s *summaryColumns) {
	d := &r.delivery
	r.wasDue = s.wasDue.Bool
	d.Gone = !s.groupExists.Bool
	d.DatabaseNow = s.databaseNow.Time
	d.Contested = r.wasDue && len(d.Messages) == 0
	if s.nextReadyAt.Valid {
		d.NoteDueIn(s.nextReadyAt.Time.Sub(d.DatabaseNow))
	}
	for _, p := range r.partitions {
		if !p.readyAt.IsZero() {
			d.NoteDueIn(p.readyAt.Sub(d.DatabaseNow))
		}
	}
	if s.dueFloor.Valid {
		r.saw = scanfloor.Observation{Now: d.DatabaseNow, Due: s.dueFloor.Time, Next: s.nextFloor.Time}
	}
}
