package push

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Inbox holds rows of the inbox that a sequencer moves: their ids and their messages.
type Inbox struct {
	IDs   []int64
	Items []queue.PushItem
}

// Sequence moves rows of the inbox; see Store.Sequence.
func (p *Pusher) Sequence(ctx context.Context, conn *pgxpool.Conn, rows Inbox) ([]queue.SequenceResult, error) {
	ctx, cancel := p.Pool.Bounded(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		results, call, err := p.sequence(ctx, conn, rows)
		if err == nil {
			return results, nil
		}
		// In another epoch, the ids of the rows may belong to other rows. The caller scans the
		// inbox again.
		if attempt < openAttempts && postgres.SQLState(err) == postgres.PartitionGone && !p.Names.EpochEnded(ctx, call.Opened[0].Epoch) {
			p.Names.Forget(call.Opened)
			continue
		}
		if postgres.ConnectionLost(err) {
			// The commit may have succeeded, but the wake or its announcement may be missing.
			p.Pool.ReportBrokenConnection()
		}
		return nil, postgres.Wrap(fmt.Errorf("sequencing %d rows: %w", len(rows.IDs), err))
	}
}

// sequence makes one attempt of Sequence. It returns the call that it tried to store.
func (p *Pusher) sequence(ctx context.Context, conn *pgxpool.Conn, rows Inbox) ([]queue.SequenceResult, *Call, error) {
	results, call := make([]queue.SequenceResult, len(rows.Items)), NewCall(rows.Items)
	if _, err := p.Open(ctx, call); err != nil {
		return nil, call, err
	}
	admission, err := p.Quotas.AdmitSome(ctx, call.Demands())
	if err != nil {
		return nil, call, err
	}
	call.refuse(admission, results)
	p.refuseSealed(call, results)
	kept := make([]int, 0, len(rows.Items))
	for i := range results {
		if results[i].Refused == nil {
			kept = append(kept, i)
		}
	}
	if len(kept) < len(rows.Items) {
		rows = rows.only(kept)
		call = NewCall(rows.Items)
		if _, err := p.Open(ctx, call); err != nil {
			admission.Settle(quota.NotStored)
			return nil, call, err
		}
	}
	if len(kept) > 0 {
		err = p.store(ctx, NewFlush([]*Call{call}), pipeline.ConfirmedOn(conn), rows.IDs)
	}
	admission.Settle(Outcome(err))
	if err != nil {
		return nil, call, err
	}
	for at, i := range kept {
		results[i].Duplicate = call.Results[at].Duplicate
	}
	return results, call, nil
}

// only returns the rows at the given indexes.
func (rows Inbox) only(kept []int) Inbox {
	some := Inbox{IDs: make([]int64, len(kept)), Items: make([]queue.PushItem, len(kept))}
	for at, i := range kept {
		some.IDs[at], some.Items[at] = rows.IDs[i], rows.Items[i]
	}
	return some
}

// refuse refuses the items that were not admitted, which are the last items of each full queue.
func (call *Call) refuse(admission quota.Admission, results []queue.SequenceResult) {
	left := admission.Granted()
	for i := range call.Items {
		partition := call.Opened[call.partitionOf[i]]
		switch {
		case !partition.Bounded:
		case call.First[i] != i:
			results[i].Refused = results[call.First[i]].Refused
		case left[partition.QueueKey] == 0:
			results[i].Refused = &queue.Error{Code: queue.CodeQueueFull, Message: fmt.Sprintf(
				"queue %q was full (maxSize): wait until consumers have caught up, or raise maxSize; then retry with belfry.inbox_retry", partition.Queue)}
		default:
			left[partition.QueueKey]--
		}
	}
}
