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

const (
	// maxAttempts is the number of attempts that Attempts returns.
	maxAttempts = 1000
	// maxResent is the number of resends that Resent returns.
	maxResent = 100
)

var (
	sqlAttempts = sql.Query("engine/deadletter/attempts")
	sqlResent   = sql.Query("engine/deadletter/resent")
)

// Attempt is a delivery of a message to a group that failed.
type Attempt struct {
	Group string
	// Number counts the failed attempts of the message for the group, from 1.
	Number int64
	// DeliveredAt is zero if the begin of the lease is unknown.
	DeliveredAt, FailedAt time.Time
	// Result is failed, dlq, retry or lease_expired.
	Result string
	Error  string
	// Consumer sent the ack. Instance applied it. They are empty if they are unknown.
	Consumer, Instance string
}

// Resent describes the message that an operator sent again from another message.
type Resent struct {
	ID, PartitionID                 queue.ID
	Queue, Partition, TransactionID string
	SentAt                          time.Time
	// Sender is empty if it is unknown.
	Sender string
}

// resultNames are the values of belfry.attempt.result.
var resultNames = map[int16]string{2: "failed", 3: "dlq", 4: "retry", 5: "lease_expired"}

// Attempts returns the failed attempts to deliver a message, the newest first. If group is not nil, it returns
// only attempts of the group. A message that does not exist has none. Errors: CodeUnavailable.
func (l *Letters) Attempts(ctx context.Context, partition queue.ID, transactionID string, group *string) ([]Attempt, error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	rows, _ := l.pool.Query(ctx, sqlAttempts, [16]byte(partition), transactionID, group, maxAttempts)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Attempt, err error) { // also returns the error of Query
		var result int16
		err = row.Scan(&a.Group, &a.Number, (*zeronull.Timestamptz)(&a.DeliveredAt), &a.FailedAt, &result, (*zeronull.Text)(&a.Error),
			(*zeronull.Text)(&a.Consumer), (*zeronull.Text)(&a.Instance))
		a.Result = resultNames[result]
		return a, err
	})
	return all, postgres.Wrapf(err, "reading the attempts of message %q of partition %s", transactionID, partition)
}

// Resent returns the messages that were sent again from a message, the newest first. Errors: CodeUnavailable.
func (l *Letters) Resent(ctx context.Context, partition queue.ID, transactionID string) ([]Resent, error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	rows, _ := l.pool.Query(ctx, sqlResent, [16]byte(partition), transactionID, maxResent)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Resent, err error) { // also returns the error of Query
		err = row.Scan(&r.ID, &r.Queue, &r.Partition, &r.TransactionID, &r.SentAt, (*zeronull.Text)(&r.Sender), (*zeronull.UUID)(&r.PartitionID))
		return r, err
	})
	return all, postgres.Wrapf(err, "reading the resends of message %q of partition %s", transactionID, partition)
}
