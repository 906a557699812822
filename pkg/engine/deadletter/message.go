package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// deleteLockTimeout bounds how long a deletion holds the partition lock while it waits for
	// cursors.
	deleteLockTimeout = 100 * time.Millisecond
	// deletePause is the pause before the next attempt. Meanwhile, pushes can lock the partition.
	deletePause = 200 * time.Millisecond
)

var (
	sqlMessageShow   = sql.Query("engine/deadletter/message_show")
	sqlMessageGroups = sql.Query("engine/deadletter/message_groups")
	sqlMessageDelete = sql.Query("engine/deadletter/message_delete")
	sqlWake          = sql.Query("engine/store/wake")
)

// Message is one message with the options of its queue and the state of each consumer group.
type Message struct {
	ID, TraceID queue.ID
	ProducerSub string
	CreatedAt   time.Time
	// VisibleAt is zero without a delay.
	VisibleAt              time.Time
	Queue, Partition       string
	Namespace, Task        string
	Priority, LeaseTime    int64
	RetryLimit, RetryDelay int64
	TTL                    int64
	Encrypted              bool
	Headers                queue.Headers
	// Payload is decrypted. It is nil if PayloadError is set.
	Payload      []byte
	PayloadError string
	// Groups are in name order.
	Groups []GroupState

	partitionID, seq int64
}

// GroupState is the state of one message for one consumer group.
type GroupState struct {
	Group string
	// Consumed is set if the cursor of the group is after the message, even if the message is a
	// dead letter.
	Consumed bool
	// LeasedUntil is the end of the live lease that covers the message. It is zero without such a
	// lease.
	LeasedUntil time.Time
	// Dead is set if the message is a dead letter of the group. Failures, Error and FailedAt
	// describe the dead letter.
	Dead     bool
	Failures int
	Error    string
	FailedAt time.Time
}

// Message returns one message. Errors: CodeNotFound, CodeUnavailable.
func (l *Letters) Message(ctx context.Context, partition queue.ID, transactionID string) (Message, error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	m, err := l.find(ctx, partition, transactionID)
	if err != nil {
		return m, err
	}
	m.Payload, m.PayloadError = l.decrypt(m.Payload, m.Encrypted, seal.Message{Queue: m.Queue, Partition: m.Partition, ID: m.ID})
	rows, _ := l.pool.Query(ctx, sqlMessageGroups, m.partitionID, m.seq)
	m.Groups, err = pgx.CollectRows(rows, readGroupState) // also returns the error of Query
	return m, postgres.Wrapf(err, "reading the consumer groups of partition %s", partition)
}

func readGroupState(row pgx.CollectableRow) (g GroupState, err error) {
	var failures *int
	err = row.Scan(&g.Group, &g.Consumed, (*zeronull.Timestamptz)(&g.LeasedUntil), &failures, (*zeronull.Text)(&g.Error),
		(*zeronull.Timestamptz)(&g.FailedAt))
	if failures != nil {
		g.Dead, g.Failures = true, *failures
	}
	return g, err
}

// find reads a message without its groups. It does not decrypt the payload.
func (l *Letters) find(ctx context.Context, partition queue.ID, transactionID string) (m Message, err error) {
	err = l.pool.QueryRow(ctx, sqlMessageShow, [16]byte(partition), transactionID).Scan(
		&m.partitionID, &m.seq, &m.ID, (*zeronull.UUID)(&m.TraceID), (*zeronull.Text)(&m.ProducerSub), &m.CreatedAt,
		(*zeronull.Timestamptz)(&m.VisibleAt), &m.Payload, &m.Encrypted, (*[]byte)(&m.Headers), &m.Partition, &m.Queue, &m.Namespace, &m.Task, &m.Priority, &m.LeaseTime,
		&m.RetryLimit, &m.RetryDelay, &m.TTL)
	if postgres.IsNoRows(err) {
		return m, &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
	}
	return m, postgres.Wrapf(err, "finding message %q of partition %s", transactionID, partition)
}

// Delete removes a message from its log, with its dead letters and its traces, and reports whether
// it existed. Groups that have not consumed the message skip it. A consumer that holds a lease on
// the message gets "Message not found" for its ack. Delete waits for SQL consumers that hold a
// cursor, until the request times out. Pushes to the partition continue meanwhile. Errors:
// CodeUnavailable.
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
	audit.Locate(ctx, m.Queue, m.Partition)
	err = patiently(ctx, func() (err error) {
		existed, err = l.tryDelete(ctx, partition, m.partitionID, transactionID)
		return err
	})
	return existed, postgres.Wrapf(err, "deleting message %q of partition %s", transactionID, partition)
}

// patiently repeats a change of one message while another transaction holds a cursor of its partition, until ctx ends.
func patiently(ctx context.Context, change func() error) error {
	for {
		err := change()
		if postgres.SQLState(err) != postgres.LockTimeout {
			return err
		}
		if backoff.Sleep(ctx, deletePause) != nil {
			return fmt.Errorf("another transaction holds a cursor of the partition: %w", err)
		}
	}
}

// tryDelete deletes a message in one transaction and publishes the effects. partitionID is the
// database id of the partition.
func (l *Letters) tryDelete(ctx context.Context, partition queue.ID, partitionID int64, transactionID string) (existed bool, err error) {
	var group *int64
	var lease *queue.ID
	var in *postgres.Seconds
	var leases []queue.ID
	var ready []queue.Ready
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, sqlMessageDelete, [16]byte(partition), transactionID, deleteLockTimeout.Milliseconds())
		_, err := pgx.ForEachRow(rows, []any{&group, &lease, &in}, func() error { // also returns the error of Query
			existed = true
			if lease != nil {
				leases = append(leases, *lease)
			}
			if group != nil {
				ready = appendReady(ready, *group, partitionID, in)
			}
			return nil
		})
		if err != nil || !existed {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"messages": 1})
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
	var ready []queue.Ready
	var group int64
	var in *postgres.Seconds
	var at pgtype.Timestamptz
	rows, _ := l.pool.Query(ctx, sqlWake, []int64{partition})
	_, err := pgx.ForEachRow(rows, []any{&group, &partition, &in, &at}, func() error { // also returns the error of Query
		if in != nil {
			ready = append(ready, queue.Ready{Group: group, Partition: partition, In: time.Duration(*in), At: at.Time})
		}
		return nil
	})
	if err != nil {
		l.log.Warn("a wake failed; a heal will repeat it", zap.Int64("partition_id", partition), zap.Error(err))
		l.pool.SignalLoss()
	}
	l.events.Ready(ready, events.Here)
}
