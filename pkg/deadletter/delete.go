package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// deleteLockTimeout is how long a deletion holds the partition while it waits for cursors.
	deleteLockTimeout = 100 * time.Millisecond
	// deletePause is how long the partition is free for others before the next attempt.
	deletePause = 200 * time.Millisecond
)

var (
	sqlMessageDelete = sql.Query("deadletter/message_delete")
	sqlWake          = sql.Query("store/wake")
)

// Delete removes a message from its log, with its dead letters and its traces, and reports whether
// it existed. Groups that have not consumed it skip it. A consumer that holds a lease on
// it gets "Message not found" for its ack. Delete waits for SQL consumers that hold a cursor, until
// the request times out. Pushes to the partition go on meanwhile. Errors: CodeUnavailable.
func (l *Letters) Delete(ctx context.Context, partition queue.ID, transactionID string) (existed bool, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	m, err := l.find(ctx, partition, transactionID)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for {
		existed, err = l.tryDelete(ctx, partition, m.partitionID, transactionID)
		if err == nil {
			return existed, nil
		}
		if postgres.SQLState(err) != postgres.LockTimeout {
			return false, postgres.Wrap(fmt.Errorf("deleting message %q of partition %s: %w", transactionID, partition, err))
		}
		if backoff.Sleep(ctx, deletePause) != nil {
			return false, postgres.Wrap(fmt.Errorf("deleting message %q of partition %s: another transaction holds it: %w", transactionID, partition, err))
		}
	}
}

// tryDelete deletes a message in one transaction and publishes the effects. partitionID is the
// database id of the partition.
func (l *Letters) tryDelete(ctx context.Context, partition queue.ID, partitionID int64, transactionID string) (existed bool, err error) {
	rows, err := l.pool.Query(ctx, sqlMessageDelete, [16]byte(partition), transactionID, deleteLockTimeout.Milliseconds())
	if err != nil {
		return false, err
	}
	var group pgtype.Int8
	var lease pgtype.UUID
	var seconds pgtype.Float8
	var leases []queue.ID
	var ready []queue.Ready
	_, err = pgx.ForEachRow(rows, []any{&group, &lease, &seconds}, func() error {
		existed = true
		if lease.Valid {
			leases = append(leases, lease.Bytes)
		}
		if seconds.Valid {
			ready = append(ready, readyIn(group.Int64, partitionID, seconds.Float64))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, id := range leases {
		l.events.LeaseChanged(id)
	}
	l.events.Ready(ready, events.Here)
	l.wake(ctx, partitionID)
	return existed, nil
}

// wake makes cursors of a partition ready if they have messages to deliver. The deletion may have
// cleared ready_at of a cursor while a push stored the next message.
func (l *Letters) wake(ctx context.Context, partition int64) {
	rows, err := l.pool.Query(ctx, sqlWake, []int64{partition})
	var ready []queue.Ready
	if err == nil {
		var group int64
		var seconds pgtype.Float8
		var at pgtype.Timestamptz
		_, err = pgx.ForEachRow(rows, []any{&group, &partition, &seconds, &at}, func() error {
			if seconds.Valid {
				one := readyIn(group, partition, seconds.Float64)
				one.At = at.Time
				ready = append(ready, one)
			}
			return nil
		})
	}
	if err != nil {
		l.log.Warn("a wake failed; a heal will repeat it", zap.Int64("partition_id", partition), zap.Error(err))
		l.pool.SignalLoss()
	}
	l.events.Ready(ready, events.Here)
}
