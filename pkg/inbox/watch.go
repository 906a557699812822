package inbox

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

const (
	// watchEvery is the pause between two looks at what the sequencer does, while
	// rows wait.
	watchEvery = 600 * time.Millisecond
	// frozenAfter is how long a sequencer may leave its session waiting while
	// rows wait.
	frozenAfter = time.Second
	// deposed is how long a session that was told to end may take.
	deposed = 50 * time.Millisecond
)

// watch is the turn of an instance while another one has the lock. When rows were
// announced it looks now and then whether the other one takes them, and ends its
// session when it does not although it was asked to: the row that was first is still
// there a look later, and the session has done nothing but wait for its client. A
// database that is slow does not look like that. Then, or when the other one has died,
// the lock is free at the next turn. Nothing is asked while nothing is announced and
// nothing may be left unannounced: the mark says so.
func (s *Sequencer) watch(ctx context.Context) (next time.Duration, err error) {
	if !s.watching {
		s.watching, s.head, s.calm = true, 0, false
		return watchEvery, nil
	}
	ctx, cancel := s.own.Bounded(ctx)
	defer cancel()
	var head int64
	var frozen, marked bool
	if err := s.own.QueryRow(ctx, sqlWatch, lockClass, lockID, frozenAfter.Seconds(), markID).Scan(&head, &frozen, &marked); err != nil {
		return 0, fmt.Errorf("watching the sequencer: %w", err)
	}
	before := s.head
	calm := s.calm
	s.head, s.calm = head, head == 0 && !marked
	switch {
	case s.calm && !calm:
		// Perhaps the lock was gone because its holder had just died: the next turn
		// tries to lead before it looks.
		return watchEvery, nil
	case s.calm:
		s.watching = false
		return s.idle(), nil
	case frozen && head > 0 && before == 0:
		// Perhaps it sleeps, and nobody announced the row (belfry.notify = off).
		if _, err := s.own.Exec(ctx, sqlWake); err != nil {
			return 0, fmt.Errorf("asking the sequencer for rows: %w", err)
		}
		return watchEvery, s.tell(ctx, before)
	case !frozen || before == 0 || head > before:
		return watchEvery, s.tell(ctx, before)
	}
	who, err := holder(ctx, s.own, lockID)
	if err != nil {
		return 0, fmt.Errorf("asking who the sequencer is: %w", err)
	}
	var ended int64
	if err := s.own.QueryRow(ctx, sqlDepose, lockClass, lockID, frozenAfter.Seconds(), sleepID).Scan(&ended); err != nil {
		return 0, fmt.Errorf("ending a sequencer that does nothing, %s (its role must be ours): %w", who, err)
	}
	s.log.Warn("the sequencer is frozen; its session was ended, and this instance may take over",
		zap.Stringer("holder", who), zap.Int64("sessions", ended))
	return deposed, nil
}
