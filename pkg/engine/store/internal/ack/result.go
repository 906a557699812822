package ack

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The reasons why an ack was not applied. Clients compare these texts (docs/compatibility.md).
const (
	ErrMessageNotFound = "Message not found"
	errLease           = "Invalid or expired lease"
	errNoCursor        = "The consumer group has not popped from this partition"
	errBlocked         = "The partition is blocked for the consumer group: an operator must decide about its first message"
	errAfterFailure    = "Not applied: an earlier message of this partition failed in the same call, so this one is redelivered with it"
)

// item is the kind of a row of belfry.apply_acks. sql/schema/ack_row.sql describes all columns.
type item int16

const (
	// itemAck is an ack with a verdict.
	itemAck item = 1
	// itemCursor is a locked cursor.
	itemCursor item = 2
)

// verdict says why an ack was not applied, or what happened to a message without a retry left. Any other
// ack that was applied has no verdict.
type verdict int16

const (
	verdictLease        verdict = 1
	verdictAfterFailure verdict = 2
	verdictNoEffect     verdict = 3
	verdictDeadLetter   verdict = 4
	verdictBlocked      verdict = 5
	verdictBlocks       verdict = 6
	verdictSkipped      verdict = 7
)

// row is one row of belfry.apply_acks. Only the columns of its item are set.
type row struct {
	item item
	// The columns of an ack.
	entry   pgtype.Int4
	verdict pgtype.Int2
	// The columns of a cursor.
	cursor           pgtype.Int4
	partition, group pgtype.Int8
	leaseBefore      pgtype.UUID
	endedBy          pgtype.Int4
	readyAt          pgtype.Timestamptz
	readyIn          pgtype.Float8
	needsWake        pgtype.Bool
	givesRoom        pgtype.Bool
}

// lockedCursor is a locked cursor with its lease before and after the acks.
type lockedCursor struct {
	exists bool
	// leaseBefore is the lease that was live before the acks, or zero.
	leaseBefore queue.ID
	// endedBy is the number of the call that ended the lease, counted from 1. It is 0 if no lease was
	// live before. leaseLive is set if no call ended the lease.
	endedBy   int32
	leaseLive bool
}

// Read reads the results of Queue and fills the results of the calls.
func (f *Flush) Read(results pgx.BatchResults) error {
	f.locked = make([]lockedCursor, len(f.Partitions))
	f.ready, f.needWake = nil, nil
	var acks []row
	var r row
	columns := []any{
		&r.item, &r.entry, &r.verdict, &r.cursor, &r.partition, &r.group, &r.leaseBefore, &r.endedBy, &r.readyAt, &r.readyIn,
		&r.needsWake, &r.givesRoom,
	}
	err := pipeline.ForEach(results, "applying acks", columns, func() error {
		switch r.item {
		case itemAck:
			acks = append(acks, r)
		case itemCursor:
			f.addCursor(&r)
		default:
			return fmt.Errorf("belfry.apply_acks returned a row with the unknown item %d", r.item)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.fillResults()
	for i := range acks {
		f.applyVerdict(&acks[i])
	}
	return nil
}

func (f *Flush) addCursor(r *row) {
	c := lockedCursor{exists: true, endedBy: r.endedBy.Int32, leaseLive: !r.endedBy.Valid}
	if r.leaseBefore.Valid {
		c.leaseBefore = r.leaseBefore.Bytes
		f.liveLeases[c.leaseBefore] = true
	}
	if at := int(r.cursor.Int32) - 1; at < len(f.locked) {
		f.locked[at] = c
	}
	if r.needsWake.Bool {
		f.needWake = append(f.needWake, r.partition.Int64)
	}
	if r.givesRoom.Bool {
		f.ready = append(f.ready, queue.Ready{Group: r.group.Int64, Partition: queue.Room})
	}
	if r.readyIn.Valid {
		f.ready = append(f.ready, queue.Ready{
			Group: r.group.Int64, Partition: r.partition.Int64, In: wake.Seconds(r.readyIn.Float64), At: r.readyAt.Time,
		})
	}
}

// fillResults gives every ack the result of an ack without a verdict: success, or an error if its
// message or cursor does not exist.
func (f *Flush) fillResults() {
	for _, call := range f.calls {
		for _, item := range call.Found {
			if call.Seqs[item] == 0 {
				call.Results[item] = queue.AckResult{Queue: call.Partitions[item].Queue, Partition: call.Partitions[item].Name, Error: ErrMessageNotFound}
			}
		}
	}
	for _, e := range f.entries {
		cursor := &f.locked[e.cursor]
		for _, item := range e.items {
			result := &e.call.Results[item]
			*result = queue.AckResult{Queue: e.call.Partitions[item].Queue, Partition: e.call.Partitions[item].Name}
			switch {
			case cursor.exists:
				result.Success, result.Resolved = true, true
				result.LeaseReleased = !cursor.leaseLive && cursor.endedBy <= e.callNumber
			case e.call.Items[item].LeaseID != "":
				result.Error = errLease // the group and its leases were deleted
			default:
				result.Error = errNoCursor
			}
		}
	}
}

// applyVerdict changes the results of the acks that r describes.
func (f *Flush) applyVerdict(r *row) {
	e := f.entries[r.entry.Int32-1]
	for _, item := range e.items {
		result := &e.call.Results[item]
		switch verdict(r.verdict.Int16) {
		case verdictDeadLetter:
			result.DeadLettered = true
			continue
		case verdictBlocks:
			result.Exhausted = queue.ExhaustedBlocked
			continue
		case verdictSkipped:
			result.Exhausted = queue.ExhaustedSkipped
			continue
		case verdictBlocked:
			result.Error = errBlocked
		case verdictLease:
			result.Error = errLease
		case verdictAfterFailure:
			result.Error = errAfterFailure
		case verdictNoEffect: // no reason, for compatibility
		}
		result.Success, result.Resolved = false, false
	}
}
