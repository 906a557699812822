package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// errNoMessage is what a caller hears who names a message that does not exist.
func errNoMessage() error {
	return &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
}

// Message is one message with where its queue and its readers stand.
type Message struct {
	ID, TraceID            queue.ID
	ProducerSub            string
	CreatedAt              time.Time
	Queue, Partition       string
	Namespace, Task        string
	Priority, LeaseTime    int64
	RetryLimit, RetryDelay int64
	TTL                    int64
	Encrypted              bool
	// Payload is opened; nil for the reason PayloadError.
	Payload      []byte
	PayloadError string
	// Readers are in name order.
	Readers []Reader
}

// Reader is a consumer group as seen from a message.
type Reader struct {
	Group string
	// Consumed: the group is done with it, be it as a dead letter.
	Consumed bool
	// LeasedUntil is set while a live lease holds it.
	LeasedUntil time.Time
	// Dead: it is a dead letter of the group, which failed so often, at FailedAt,
	// for the reason Error.
	Dead     bool
	Failures int
	Error    string
	FailedAt time.Time
}

// Message returns one message. Errors: CodeNotFound, CodeUnavailable.
func (l *Letters) Message(ctx context.Context, partition queue.ID, transactionID string) (Message, error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	var m Message
	var key, seq int64
	var trace pgtype.UUID
	var sub pgtype.Text
	err := l.pool.QueryRow(ctx, sql.Query("deadletter/message_show"), [16]byte(partition), transactionID).Scan(
		&key, &seq, (*[16]byte)(&m.ID), &trace, &sub, &m.CreatedAt, &m.Payload, &m.Encrypted, &m.Partition,
		&m.Queue, &m.Namespace, &m.Task, &m.Priority, &m.LeaseTime, &m.RetryLimit, &m.RetryDelay, &m.TTL)
	if postgres.IsNoRows(err) {
		return m, errNoMessage()
	}
	if err != nil {
		return m, postgres.Wrap(fmt.Errorf("showing message %q of partition %s: %w", transactionID, partition, err))
	}
	m.TraceID, m.ProducerSub = trace.Bytes, sub.String
	m.Payload, m.PayloadError = l.open(m.Payload, m.Encrypted)
	rows, err := l.pool.Query(ctx, sql.Query("deadletter/message_groups"), key, seq)
	if err == nil {
		m.Readers, err = pgx.CollectRows(rows, readReader)
	}
	if err != nil {
		return m, postgres.Wrap(fmt.Errorf("showing the readers of partition %s: %w", partition, err))
	}
	return m, nil
}

func readReader(row pgx.CollectableRow) (Reader, error) {
	var r Reader
	var leased, failed pgtype.Timestamptz
	var failures pgtype.Int4
	var reason pgtype.Text
	err := row.Scan(&r.Group, &r.Consumed, &leased, &failures, &reason, &failed)
	r.LeasedUntil, r.FailedAt = leased.Time, failed.Time
	r.Dead, r.Failures, r.Error = failures.Valid, int(failures.Int32), reason.String
	return r, err
}

// Retry puts the dead letters of one message back: for a group, or (nil) for
// every group that has one. Errors: CodeNotFound when there is no such message,
// or none of its dead letters can be put back; CodeUnavailable.
func (l *Letters) Retry(ctx context.Context, partition queue.ID, transactionID string, group *string) (n int64, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	if _, err := l.find(ctx, partition, transactionID); err != nil {
		return 0, err
	}
	rows, err := l.pool.Query(ctx, sql.Query("deadletter/of_message"), [16]byte(partition), transactionID, group)
	var found living
	if err == nil {
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&id, &found.life}, func() error {
			found.ids = append(found.ids, id)
			return nil
		})
	}
	if err == nil && len(found.ids) > 0 {
		n, err = l.redrive(ctx, found)
	}
	if err != nil {
		return 0, postgres.Wrap(fmt.Errorf("redriving message %q of partition %s: %w", transactionID, partition, err))
	}
	if n == 0 && len(found.ids) > 0 {
		var life int64
		if err := l.pool.QueryRow(ctx, sql.Query("store/epoch")).Scan(&life); err != nil {
			return 0, postgres.Wrap(err)
		}
		if life != found.life {
			return 0, &queue.Error{
				Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter,
				Message: "the database was started again, or restored, meanwhile; send the request again",
			}
		}
	}
	if n == 0 {
		return 0, &queue.Error{Code: queue.CodeNotFound, Message: "the message is not in the dead letter queue of " + groupText(group)}
	}
	return n, nil
}

func groupText(group *string) string {
	if group == nil {
		return "any consumer group"
	}
	return fmt.Sprintf("consumer group %q", *group)
}

// find returns the key of the partition of a message that exists.
func (l *Letters) find(ctx context.Context, partition queue.ID, transactionID string) (key int64, err error) {
	var seq int64
	var rest [15]any
	err = l.pool.QueryRow(ctx, sql.Query("deadletter/message_show"), [16]byte(partition), transactionID).Scan(append([]any{&key, &seq}, rest[:]...)...)
	if postgres.IsNoRows(err) {
		return 0, errNoMessage()
	}
	if err != nil {
		return 0, postgres.Wrap(fmt.Errorf("finding message %q of partition %s: %w", transactionID, partition, err))
	}
	return key, nil
}

// deletePatience is how long a deletion holds a partition while it waits for the
// cursors, and deletePause how long it then leaves it to others.
const deletePatience, deletePause = 100 * time.Millisecond, 200 * time.Millisecond

// Delete removes a message from its log, with its dead letters and its traces.
// Groups that have not read it go on behind it; a lease that holds it hears
// "Message not found". existed is false when there was none. It waits for a
// transaction of a consumer in SQL until the time of the request is up; pushes to
// the partition go on meanwhile. Errors: CodeUnavailable.
func (l *Letters) Delete(ctx context.Context, partition queue.ID, transactionID string) (existed bool, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	key, err := l.find(ctx, partition, transactionID)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for {
		existed, err = l.delete(ctx, partition, key, transactionID)
		if err == nil {
			return existed, nil
		}
		if postgres.SQLState(err) != postgres.LockTimeout {
			return false, postgres.Wrap(fmt.Errorf("deleting message %q of partition %s: %w", transactionID, partition, err))
		}
		select {
		case <-time.After(deletePause):
		case <-ctx.Done():
			return false, postgres.Wrap(fmt.Errorf("deleting message %q of partition %s: somebody holds it: %w", transactionID, partition, err))
		}
	}
}

// delete is one try of Delete; key is the partition's, for whom it wakes.
func (l *Letters) delete(ctx context.Context, partition queue.ID, key int64, transactionID string) (existed bool, err error) {
	rows, err := l.pool.Query(ctx, sql.Query("deadletter/message_delete"), [16]byte(partition), transactionID, deletePatience.Milliseconds())
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
			ready = append(ready, readyIn(group.Int64, key, seconds.Float64))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, one := range leases {
		l.events.LeaseChanged(one)
	}
	l.announce(ready)
	l.wake(ctx, key)
	return existed, nil
}

// wake follows the commit of a deletion, which may have left a cursor asleep that
// a push has passed meanwhile.
func (l *Letters) wake(ctx context.Context, partition int64) {
	rows, err := l.pool.Query(ctx, sql.Query("store/wake"), []int64{partition})
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
		l.log.Warn("a wake failed; it will be healed", zap.Int64("partition", partition), zap.Error(err))
		l.pool.SignalLoss()
	}
	l.announce(ready)
}

func readyIn(group, partition int64, seconds float64) queue.Ready {
	return queue.Ready{Group: group, Partition: partition, In: time.Duration(seconds * float64(time.Second))}
}

func (l *Letters) announce(ready []queue.Ready) {
	if len(ready) > 0 {
		l.events.Ready(ready, events.Here)
	}
}
