package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// queryCanceled is the SQLSTATE of a statement that was cancelled.
const queryCanceled = "57014"

var errMarked = errors.New("the session of the sequencer before has not quite ended")

// sleep is how the sequencer goes to sleep. It belongs to Run. The mark is taken
// before awake, and given back after a look that followed the lock of sleep.
type sleep struct {
	// marked: conn has the mark; there may be producers that announce nothing.
	marked bool
	// awake: conn has the lock that says so; there may be new ones.
	awake bool
	// bed is a session for the lock of sleep alone; it may be nil.
	bed *pgx.Conn
	// sleeper is the process that serves it.
	sleeper int32
	// asked is where the answer comes when bed waits for the lock, nil when it does
	// not; cancel ends the wait, and the session.
	asked  chan error
	cancel context.CancelFunc
	// asleep: bed has the lock.
	asleep bool
	// restless is why the latest attempt failed.
	restless error
}

// work is a turn of the sequencer: a look, and what follows from it for its sleep.
// It returns after how long to look unasked.
func (s *Sequencer) work(ctx context.Context) (next time.Duration, err error) {
	began := time.Now()
	if err := s.restless; err != nil {
		s.restless = nil
		return 0, err
	}
	settled := s.asleep
	if err := s.drain(ctx); err != nil || ctx.Err() != nil {
		return s.idle(), err
	}
	ctx, cancel := s.own.Bounded(ctx)
	defer cancel()
	switch many := s.heard.Load() > 1 && s.busy.After(began); {
	case s.awake && time.Since(s.busy) < s.linger:
	case many && !s.awake:
		err = s.rise(ctx)
	case s.marked && settled:
		err = s.unlock(ctx, markID)
		s.marked = err != nil
	case s.marked && s.asked == nil && !s.asleep:
		err = s.lieDown(ctx)
	}
	if s.awake {
		return max(0, pace-time.Since(began)), err
	}
	return s.idle(), err
}

// mark tells the other instances to watch, from before the first producer leaves out
// its notification.
func (s *Sequencer) mark(ctx context.Context) error {
	if err := s.conn.QueryRow(ctx, sqlMark, lockClass, markID).Scan(&s.marked, nil); err != nil {
		return fmt.Errorf("marking that the sequencer wakes up: %w", err)
	}
	if s.marked {
		return nil
	}
	who, err := holder(ctx, s.own, markID)
	if err != nil {
		return errors.Join(errMarked, err)
	}
	return fmt.Errorf("%w, or somebody else has lock (%d, %d): %s", errMarked, lockClass, markID, who)
}

// rise wakes up: from here on producers may leave out their notification. When
// somebody else has the lock, they go on notifying.
func (s *Sequencer) rise(ctx context.Context) error {
	if !s.marked {
		if err := s.mark(ctx); err != nil {
			s.forsake()
			return err
		}
	}
	if err := s.conn.QueryRow(ctx, sqlLock, lockClass, awakeID).Scan(&s.awake); err != nil {
		s.forsake()
		return fmt.Errorf("waking up: %w", err)
	}
	if !s.awake {
		return nil
	}
	if s.asked != nil {
		if err := s.withdraw(ctx); err != nil {
			s.leaveBed()
			return err
		}
	}
	if !s.asleep {
		return nil
	}
	s.asleep = false
	if _, err := s.bed.Exec(ctx, sqlUnlock, lockClass, sleepID); err != nil {
		s.leaveBed()
		return fmt.Errorf("leaving the lock of sleep: %w", err)
	}
	return nil
}

// lieDown begins to go to sleep. First nobody new leaves out a notification, then
// the bed waits for those who have.
func (s *Sequencer) lieDown(ctx context.Context) error {
	if s.awake {
		if err := s.unlock(ctx, awakeID); err != nil {
			return err
		}
		s.awake = false
	}
	if s.bed == nil {
		conn, err := s.own.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connecting to go to sleep: %w", err)
		}
		s.bed = conn.Hijack()
		if err := s.bed.QueryRow(ctx, sqlPatience).Scan(&s.sleeper, nil, nil); err != nil {
			s.leaveBed()
			return fmt.Errorf("making up the bed: %w", err)
		}
	}
	asked, bed := make(chan error, 1), s.bed
	waiting, cancel := context.WithCancel(context.Background())
	go func() { // settle, withdraw or leaveBed wait for it
		_, err := bed.Exec(waiting, sqlSleep, lockClass, sleepID)
		asked <- err
	}()
	s.asked, s.cancel = asked, cancel
	return nil
}

// settle takes the answer of the bed.
func (s *Sequencer) settle(err error) {
	s.cancel()
	s.asked, s.cancel = nil, nil
	switch {
	case err == nil:
		s.asleep = true
	case postgres.SQLState(err) == queryCanceled: // it lives on
	default:
		s.leaveBed()
		s.restless = fmt.Errorf("going to sleep: %w", err)
	}
}

// withdraw makes the bed wait no longer. It may not have begun to.
func (s *Sequencer) withdraw(ctx context.Context) error {
	again := time.NewTicker(pace)
	defer again.Stop()
	for {
		if _, err := s.conn.Exec(ctx, sqlWithdraw, s.sleeper); err != nil {
			return fmt.Errorf("waiting for sleep no longer: %w", err)
		}
		select {
		case err := <-s.asked:
			s.settle(err)
			return nil
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leaveBed ends the session for sleep, and with it its lock or its wait.
func (s *Sequencer) leaveBed() {
	if s.asked != nil {
		s.cancel()
		s.log.Debug("the sequencer leaves its bed", zap.NamedError("answer", <-s.asked))
		s.asked, s.cancel = nil, nil
	}
	if s.bed != nil {
		ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
		defer cancel()
		_ = s.bed.Close(ctx)
	}
	s.bed, s.asleep = nil, false
}

// unlock gives back a lock of conn.
func (s *Sequencer) unlock(ctx context.Context, id int32) error {
	if _, err := s.conn.Exec(ctx, sqlUnlock, lockClass, id); err != nil {
		s.forsake()
		return fmt.Errorf("giving back lock %d: %w", id, err)
	}
	return nil
}
