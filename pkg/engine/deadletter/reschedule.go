package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlMessageMove = sql.Query("engine/deadletter/message_move")

// Instant is the instant to which Reschedule moves a message. At most one of its fields is set. The zero Instant is now.
type Instant struct {
	At time.Time
	// Delay counts from the change on, by the clock of the database.
	Delay time.Duration
}

// Rescheduled has the old and the new instant of a message. A zero time: the message has no delay.
type Rescheduled struct{ Before, After time.Time }

// Reschedule moves the instant before which no pop returns a message. The message keeps its place in its partition, so the
// later messages of the partition wait for it too. An instant in the past is the same as now. Like Delete, it waits for SQL
// consumers that hold a cursor.
//
// Errors: CodeNotFound; CodeConflict if a live lease covers the message, if no group waits for it, or if its instant has passed
// and a group has finished it; CodeUnavailable.
func (l *Letters) Reschedule(ctx context.Context, partition queue.ID, transactionID string, to Instant) (done Rescheduled, err error) {
	ctx, cancel := l.pool.Bounded(ctx)
	defer cancel()
	m, err := l.find(ctx, partition, transactionID)
	if err != nil {
		return done, err
	}
	audit.Locate(ctx, m.Queue, m.Partition)
	err = patiently(ctx, func() (err error) {
		done, err = l.tryReschedule(ctx, partition, m.partitionID, transactionID, to)
		return err
	})
	return done, postgres.Wrapf(err, "moving message %q of partition %s", transactionID, partition)
}

// tryReschedule moves a message in one transaction, and publishes the new instants of its groups. partitionID is the database id
// of the partition.
func (l *Letters) tryReschedule(ctx context.Context, partition queue.ID, partitionID int64, transactionID string, to Instant) (done Rescheduled, err error) {
	var ready []queue.Ready
	var delay *float64
	if to.Delay > 0 {
		delay = new(to.Delay.Seconds())
	}
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		var refused, group string
		var groups []int64
		var in []float64
		err := tx.QueryRow(ctx, sqlMessageMove, [16]byte(partition), transactionID, zeronull.Timestamptz(to.At), delay, deleteLockTimeout.Milliseconds()).
			Scan((*zeronull.Text)(&refused), (*zeronull.Text)(&group), (*zeronull.Timestamptz)(&done.Before), (*zeronull.Timestamptz)(&done.After), &groups, &in)
		switch {
		case postgres.IsNoRows(err):
			return &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
		case err != nil:
			return err
		case refused != "":
			return refusal(refused, group)
		}
		for i, id := range groups {
			seconds := postgres.Seconds(in[i] * float64(time.Second))
			ready = appendReady(ready, id, partitionID, &seconds)
		}
		audit.Add(ctx, audit.Parameters{"visibleAtBefore": inWords(done.Before), "visibleAt": inWords(done.After)})
		return audit.Write(ctx, tx, audit.Counts{"messages": 1})
	})
	if err == nil {
		l.events.Ready(ready, events.Here)
	}
	return done, err
}

// inWords returns an instant for the audit.
func inWords(at time.Time) string {
	if at.IsZero() {
		return "now"
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// refusal returns the error of a message that cannot be moved, because of a group.
func refusal(why, group string) error {
	text := "%s has finished the message, so its delivery cannot be moved any more: push a new message with the new instant"
	if why == "leased" {
		text = "a consumer of %s holds a lease on the message, so it is being processed: wait until the lease has ended"
	}
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf(text, groupText(&group))}
}
