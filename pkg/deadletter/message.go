package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlMessageShow   = sql.Query("deadletter/message_show")
	sqlMessageGroups = sql.Query("deadletter/message_groups")
)

func errMessageNotFound() error {
	return &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
}

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
	rows, err := l.pool.Query(ctx, sqlMessageGroups, m.partitionID, m.seq)
	if err == nil {
		m.Groups, err = pgx.CollectRows(rows, readGroupState)
	}
	if err != nil {
		return m, postgres.Wrap(fmt.Errorf("reading the consumer groups of partition %s: %w", partition, err))
	}
	return m, nil
}

func readGroupState(row pgx.CollectableRow) (GroupState, error) {
	var g GroupState
	var leased, failed pgtype.Timestamptz
	var failures pgtype.Int4
	var reason pgtype.Text
	err := row.Scan(&g.Group, &g.Consumed, &leased, &failures, &reason, &failed)
	g.LeasedUntil, g.FailedAt = leased.Time, failed.Time
	g.Dead, g.Failures, g.Error = failures.Valid, int(failures.Int32), reason.String
	return g, err
}

// find reads a message without its groups. The payload is as it is stored.
func (l *Letters) find(ctx context.Context, partition queue.ID, transactionID string) (Message, error) {
	var m Message
	var trace pgtype.UUID
	var sub pgtype.Text
	err := l.pool.QueryRow(ctx, sqlMessageShow, [16]byte(partition), transactionID).Scan(
		&m.partitionID, &m.seq, (*[16]byte)(&m.ID), &trace, &sub, &m.CreatedAt, &m.Payload, &m.Encrypted, &m.Partition,
		&m.Queue, &m.Namespace, &m.Task, &m.Priority, &m.LeaseTime, &m.RetryLimit, &m.RetryDelay, &m.TTL)
	if postgres.IsNoRows(err) {
		return m, errMessageNotFound()
	}
	if err != nil {
		return m, postgres.Wrap(fmt.Errorf("finding message %q of partition %s: %w", transactionID, partition, err))
	}
	m.TraceID, m.ProducerSub = trace.Bytes, sub.String
	return m, nil
}
