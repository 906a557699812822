package explain

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlSchedule = sql.Query("insight/explain/schedule")

// schedulesExamined bounds the schedules that a question reads.
const schedulesExamined = 1000

// addSchedule adds the schedule that stores the next message of the partition, if nothing is left for the group. It changes no
// other answer.
func (e *Explainer) addSchedule(ctx context.Context, q Question, a *Answer) error {
	if q.TransactionID != "" || a.Code != Empty && a.Code != NoPartition && a.Code != NoQueue {
		return nil
	}
	type schedule struct {
		Name       string
		Due, Shown time.Time
		MaySkip    bool
	}
	found, err := postgres.Collect(ctx, e.pool, sqlSchedule, pgx.RowToStructByPos[schedule], q.Queue, q.Partition, int64(schedulesExamined))
	if err != nil || len(found) == 0 {
		return postgres.Wrapf(err, "reading the schedules of the queue %q", q.Queue)
	}
	next := found[0]
	a.Schedule = next.Name
	if !next.Due.After(a.At) {
		a.Sentence += fmt.Sprintf(" The schedule %q has been due since %s, and its message is not stored yet.", next.Name, text(next.Due))
		return nil
	}
	a.Sentence += fmt.Sprintf(" The next message of the schedule %q comes at %s.", next.Name, text(next.Shown))
	if a.NextChangeAt.IsZero() && !next.MaySkip {
		a.NextChangeAt = next.Due
	}
	return nil
}
