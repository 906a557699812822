package inbox

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/sql"
)

const (
	// watchInterval is the time between two looks at the sequencer.
	watchInterval = 600 * time.Millisecond
	// frozenAfter is how long the leader session may wait for its client while rows wait.
	frozenAfter = time.Second
	// terminateDelay is how long a terminated session may take to end.
	terminateDelay = 50 * time.Millisecond
)

var (
	sqlWatch  = sql.Query("inbox/watch")
	sqlWake   = sql.Query("inbox/wake")
	sqlDepose = sql.Query("inbox/depose")
)

// standby is the state of an instance that is not the sequencer. Only Run uses it.
type standby struct {
	// watching is set from a notification on, until the sequencer has moved the rows and released
	// WATCH.
	watching bool
	// firstRow is the id of the first waiting row in the last look. It is 0 if no row waited or
	// before the first look. firstRowSince is when it was first seen.
	firstRow      int64
	firstRowSince time.Time
	// quiet is set if the last look found neither a row nor WATCH.
	quiet bool
	// warnedAt is when the holder of the leader lock was last logged.
	warnedAt time.Time
}

// watch is one step on standby. The first step after a notification only starts to watch, the next
// ones look at the inbox:
//
//  1. No row and no WATCH in two looks: watching ends. One look is not enough, because the sequencer
//     may have died just before it. The next step tries to lead before it looks again.
//  2. A row, and the sequencer seems frozen for the first time: it is notified, because it may sleep
//     and the row may come from a session with belfry.notify = off.
//  3. The same first row again, and the sequencer is frozen: its session is ended. The next step
//     takes the free lock.
//
// watch returns the time until the next step.
func (s *Sequencer) watch(ctx context.Context) (next time.Duration, err error) {
	if !s.watching {
		s.watching, s.firstRow, s.quiet = true, 0, false
		return watchInterval, nil
	}
	ctx, cancel := s.own.Bounded(ctx)
	defer cancel()
	var first int64
	var frozen, watchLocked bool
	if err := s.own.QueryRow(ctx, sqlWatch, lockClass, leaderLock, frozenAfter.Seconds(), watchLock).Scan(&first, &frozen, &watchLocked); err != nil {
		return 0, fmt.Errorf("watching the sequencer: %w", err)
	}
	firstBefore, quietBefore := s.firstRow, s.quiet
	s.firstRow, s.quiet = first, first == 0 && !watchLocked
	switch {
	case s.quiet && !quietBefore:
		return watchInterval, nil
	case s.quiet:
		s.watching = false
		return s.idleInterval(), nil
	case frozen && first > 0 && firstBefore == 0:
		if _, err := s.own.Exec(ctx, sqlWake); err != nil {
			return 0, fmt.Errorf("notifying the sequencer: %w", err)
		}
		return watchInterval, s.warnIfStalled(ctx, firstBefore)
	case !frozen || firstBefore == 0 || first > firstBefore:
		return watchInterval, s.warnIfStalled(ctx, firstBefore)
	}
	return terminateDelay, s.endFrozen(ctx)
}

// endFrozen ends the leader session if it is still frozen.
func (s *Sequencer) endFrozen(ctx context.Context) error {
	who, err := holder(ctx, s.own, leaderLock)
	if err != nil {
		return fmt.Errorf("reading who the sequencer is: %w", err)
	}
	var ended int64
	if err := s.own.QueryRow(ctx, sqlDepose, lockClass, leaderLock, frozenAfter.Seconds(), sleepLock).Scan(&ended); err != nil {
		return fmt.Errorf("ending the frozen sequencer, %s (it must have the same role as this instance): %w", who, err)
	}
	s.log.Warn("the sequencer was frozen; its session was ended, and this instance may take over",
		zap.Stringer("holder", who), zap.Int64("sessions", ended))
	return nil
}
