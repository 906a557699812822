package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// ackPatience is how long an ack waits for a cursor. Whoever holds it for longer is
	// a consumer in SQL, for as long as its transaction lasts.
	ackPatience = 2 * time.Second
	// setPatience bounds how long the rest of a transaction waits for one lock.
	setPatience = "SELECT set_config('lock_timeout', $1, true)"
)

// errHeld answers an acknowledgment of what somebody else is at work on for long:
// its own lease was over before that.
func errHeld(err error) error {
	return &queue.Error{
		Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter, Err: err,
		Message: "the lease was over, and a consumer in SQL holds the partition in an open transaction; nothing was done: send the request again",
	}
}

// ackBeside applies those of calls that touch no cursor which somebody holds, after
// one of them was waited for in vain, and refuses the others: strangers do not wait
// for it (I10).
func (s *Store) ackBeside(ctx context.Context, conn *pgxpool.Conn, f *ackFlush, waited error) ([]error, error) {
	rows, err := conn.Query(ctx, sqlAckHeld, f.partitions, f.groups)
	if err != nil {
		return nil, fmt.Errorf("finding out who holds cursors: %w", err)
	}
	places, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("finding out who holds cursors: %w", err)
	}
	held := map[cursorName]bool{}
	for _, place := range places {
		held[cursorName{f.partitions[place-1], f.groups[place-1]}] = true
	}
	each, free := make([]error, len(f.calls)), make([]*ack, 0, len(f.calls))
	for i, a := range f.calls {
		for _, item := range a.found {
			if held[a.cursorOf(item)] {
				each[i] = errHeld(waited)
			}
		}
		if each[i] == nil {
			free = append(free, a)
		}
	}
	if len(free) == 0 {
		return each, nil
	}
	if err := newAckFlush(free).run(ctx, s, conn); err != nil {
		rollback(ctx, conn)
		return nil, err
	}
	return each, nil
}
