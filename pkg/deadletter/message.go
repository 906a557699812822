package deadletter

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlMessageShow   = sql.Query("deadletter/message_show")
	sqlMessageGroups = sql.Query("deadletter/message_groups")
)

// Message is one message with the options of its queue and the state of each consumer group.
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
	// Consumed is set if the group has passed the message, also as a dead letter.
	Consumed bool
	// LeasedUntil is the end of the live lease that covers the message, zero without one.
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
	m.Payload, m.PayloadError = l.decrypt(m.Payload, m.Encrypted)
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

// find reads a message without its groups. The payload is as it is stored.
func (l *Letters) find(ctx context.Context, partition queue.ID, transactionID string) (m Message, err error) {
	err = l.pool.QueryRow(ctx, sqlMessageShow, [16]byte(partition), transactionID).Scan(
		&m.partitionID, &m.seq, &m.ID, (*zeronull.UUID)(&m.TraceID), (*zeronull.Text)(&m.ProducerSub), &m.CreatedAt,
		&m.Payload, &m.Encrypted, &m.Partition, &m.Queue, &m.Namespace, &m.Task, &m.Priority, &m.LeaseTime,
		&m.RetryLimit, &m.RetryDelay, &m.TTL)
	if postgres.IsNoRows(err) {
		return m, &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
	}
	return m, postgres.Wrapf(err, "finding message %q of partition %s", transactionID, partition)
}
