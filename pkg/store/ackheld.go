package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// ackPatience is how long a call waits for cursors that somebody holds, from the
	// first wait on. Whoever holds one for longer is a consumer in SQL, for as long as
	// its transaction lasts.
	ackPatience = 2 * time.Second
	// lockPatience is how long whoever is in the way of strangers waits for one lock: a
	// flush of many acks holds their cursors, a transaction its partitions. It is more
	// than the flush of another instance takes, whose cursors a flush may meet, and
	// less than a client notices. Who waited in vain gives way.
	lockPatience = 100 * time.Millisecond
	// setPatience bounds how long a transaction waits for one lock, in milliseconds.
	setPatience = "SELECT set_config('lock_timeout', $1, true)"
)

// queuePatience adds setPatience to b. 0 would be without a bound.
func queuePatience(b *pgx.Batch, patience time.Duration) {
	b.Queue(setPatience, fmt.Sprint(max(1, patience.Milliseconds())))
}

// heldError says that somebody holds a cursor of a call, which was not applied.
type heldError struct {
	// cursor is one of them; the zero one: it was let go meanwhile.
	cursor cursorName
	// since is when the wait for it began.
	since time.Time
	// waited is how it ended; nil: others were found to wait for it.
	waited error
}

func (e *heldError) Error() string {
	return fmt.Sprintf("somebody holds the cursor of group %q in partition %d", e.cursor.group, e.cursor.partition)
}

func (e *heldError) Unwrap() error { return e.waited }

// heldIn returns the heldError in err's chain, or nil.
func heldIn(err error) *heldError {
	var held *heldError
	errors.As(err, &held)
	return held
}

// errHeld answers a call that touches what somebody else is at work on for long:
// its own lease was over before that.
func errHeld(err error) error {
	return &queue.Error{
		Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter, Err: err,
		Message: "the lease was over, and a consumer in SQL holds the partition in an open transaction; nothing was done: send the request again",
	}
}

// freely says how applyFree goes about it.
type freely struct {
	// await is a cursor to wait for, before anything is locked; nil: none.
	await *cursorName
	// patience is for await, and for locks that are not of cursors.
	patience time.Duration
	// since and waited are for the calls that are held.
	since  time.Time
	waited error
}

// applyFree applies, in one transaction, those calls of f none of whose cursors
// somebody holds, and returns the others. It waits for no cursor while it holds
// another: so it keeps nobody waiting for long, and is in no deadlock.
func (s *Store) applyFree(ctx context.Context, conn *pgxpool.Conn, f *ackFlush, how freely) (map[*ack]*heldError, error) {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	queuePatience(b, how.patience)
	if how.await != nil {
		b.Queue(sqlAckLock, []int64{how.await.partition}, []string{how.await.group})
	}
	b.Queue(sqlAckHeld, used(f.partitions), used(f.groups), rawIDs(nil))
	var names []cursorName // of what is held
	err := s.runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		steps := []string{"beginning", "setting the patience"}
		if how.await != nil {
			steps = append(steps, "waiting for a cursor")
		}
		for _, step := range steps {
			if err := skip(results, step); err != nil {
				return err
			}
		}
		var err error
		names, err = readHeld(results.Query())
		return err
	})
	if err != nil {
		return nil, err
	}
	got := f.names()
	if how.await != nil {
		got = append(got, *how.await)
	}
	s.heldCursors.learn(got, names)
	others := map[cursorName]bool{}
	for _, name := range names {
		others[name] = true
	}
	held, free := map[*ack]*heldError{}, make([]*ack, 0, len(f.calls))
	for _, a := range f.calls {
		at := slices.IndexFunc(a.found, func(item int) bool { return others[a.cursorOf(item)] })
		if at < 0 {
			free = append(free, a)
			continue
		}
		held[a] = &heldError{cursor: a.cursorOf(a.found[at]), since: how.since, waited: how.waited}
	}
	if len(free) == 0 {
		rollback(ctx, conn)
		return held, nil
	}
	g := newAckFlush(free)
	g.begun, g.patience = true, how.patience
	if err := g.run(ctx, s, conn); err != nil {
		rollback(ctx, conn)
		return nil, err
	}
	return held, nil
}

// readHeld reads the result of ack_held.sql.
func readHeld(rows pgx.Rows, err error) ([]cursorName, error) {
	var names []cursorName
	if err == nil {
		names, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (name cursorName, err error) {
			err = row.Scan(&name.partition, &name.group)
			return name, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("finding out who holds cursors: %w", err)
	}
	return names, nil
}
