package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlMark     = sql.Query("engine/inbox/mark")
	sqlPatience = sql.Query("engine/inbox/patience")
	sqlSleep    = sql.Query("engine/inbox/sleep")
	sqlWithdraw = sql.Query("engine/inbox/withdraw")
)

// queryCanceled is the SQLSTATE of a statement that was cancelled or timed out.
const queryCanceled = "57014"

var errWatchLocked = errors.New("the session of the previous sequencer has not ended yet")

// sleepState is the state of the protocol that the package doc describes under "Why a sleeping
// sequencer misses no row".
type sleepState struct {
	// watchLocked is set while conn holds WATCH. Then producers may exist that do not notify.
	watchLocked bool
	// awake is set while conn holds AWAKE. Then new producers may leave out their notification.
	awake bool
	// sleepConn is a session for SLEEP alone. It may be nil.
	sleepConn *pgx.Conn
	// sleepPID is the backend process of sleepConn.
	sleepPID int32
	// sleepResult receives the result of the wait of sleepConn for SLEEP. It is nil while sleepConn
	// does not wait. cancelSleep ends the wait and the session.
	sleepResult chan error
	cancelSleep context.CancelFunc
	// asleep is set while sleepConn holds SLEEP.
	asleep bool
	// sleepErr is the error of the last attempt to go to sleep. The next step returns this error.
	sleepErr error
}

// lead is one step of the sequencer. It moves the visible rows. Then the sequencer wakes up or goes
// to sleep, depending on the load. It returns the time until the next step.
func (s *Sequencer) lead(ctx context.Context) (next time.Duration, err error) {
	began := time.Now()
	if err := s.sleepErr; err != nil {
		s.sleepErr = nil
		return 0, err
	}
	wasAsleep := s.asleep
	if err := s.sequenceAll(ctx); err != nil || ctx.Err() != nil {
		return s.idleInterval(), err
	}
	ctx, cancel := s.SequencerPool.Bounded(ctx)
	defer cancel()
	switch loaded := s.notifications.Load() > 1 && s.lastBatch.After(began); {
	case s.awake && time.Since(s.lastBatch) < s.linger:
	case loaded && !s.awake:
		err = s.wakeUp(ctx)
	case s.watchLocked && wasAsleep:
		err = s.unlock(ctx, watchLock)
		s.watchLocked = err != nil
	case s.watchLocked && s.sleepResult == nil && !s.asleep:
		err = s.beginSleep(ctx)
	}
	if s.awake {
		return max(0, scanInterval-time.Since(began)), err
	}
	return s.idleInterval(), err
}

// lockWatch takes WATCH and notifies the other instances. It must run before the first producer
// leaves out its notification. It returns errWatchLocked if another session holds WATCH.
func (s *Sequencer) lockWatch(ctx context.Context) error {
	if err := s.conn.QueryRow(ctx, sqlMark, lockClass, watchLock).Scan(&s.watchLocked, nil); err != nil {
		return fmt.Errorf("taking the watch lock of the inbox: %w", err)
	}
	if s.watchLocked {
		return nil
	}
	who, err := holder(ctx, s.SequencerPool, watchLock)
	if err != nil {
		return errors.Join(errWatchLocked, err)
	}
	return fmt.Errorf("%w, or another session holds lock (%d, %d): %s", errWatchLocked, lockClass, watchLock, who)
}

// wakeUp makes the sequencer awake. From now on producers may leave out their notification. If
// another session holds AWAKE, the sequencer does not become awake, and scans after each
// notification.
func (s *Sequencer) wakeUp(ctx context.Context) error {
	if !s.watchLocked {
		if err := s.lockWatch(ctx); err != nil {
			s.closeLeaderSession()
			return err
		}
	}
	if err := s.conn.QueryRow(ctx, sqlLock, lockClass, awakeLock).Scan(&s.awake); err != nil {
		s.closeLeaderSession()
		return fmt.Errorf("waking up the sequencer: %w", err)
	}
	if !s.awake {
		return nil
	}
	if s.sleepResult != nil {
		if err := s.stopSleep(ctx); err != nil {
			s.closeSleepConn()
			return err
		}
	}
	if !s.asleep {
		return nil
	}
	s.asleep = false
	if _, err := s.sleepConn.Exec(ctx, sqlUnlock, lockClass, sleepLock); err != nil {
		s.closeSleepConn()
		return fmt.Errorf("releasing the sleep lock of the inbox: %w", err)
	}
	return nil
}

// beginSleep releases AWAKE, so that new producers notify. Then sleepConn waits for SLEEP, that is,
// for the producers that left out their notification. Run calls finishSleep with the result.
func (s *Sequencer) beginSleep(ctx context.Context) error {
	if s.awake {
		if err := s.unlock(ctx, awakeLock); err != nil {
			return err
		}
		s.awake = false
	}
	if s.sleepConn == nil {
		conn, err := s.SequencerPool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connecting to wait for the sleep lock: %w", err)
		}
		s.sleepConn = conn.Hijack()
		if err := s.sleepConn.QueryRow(ctx, sqlPatience).Scan(&s.sleepPID, nil, nil); err != nil {
			s.closeSleepConn()
			return fmt.Errorf("preparing the session for the sleep lock: %w", err)
		}
	}
	result, conn := make(chan error, 1), s.sleepConn
	waiting, cancel := context.WithCancel(context.Background())
	go func() { // finishSleep, stopSleep or closeSleepConn receives the result
		_, err := conn.Exec(waiting, sqlSleep, lockClass, sleepLock)
		result <- err
	}()
	s.sleepResult, s.cancelSleep = result, cancel
	return nil
}

// finishSleep handles the result of the wait for SLEEP.
func (s *Sequencer) finishSleep(err error) {
	s.cancelSleep()
	s.sleepResult, s.cancelSleep = nil, nil
	switch {
	case err == nil:
		s.asleep = true
	case postgres.SQLState(err) == queryCanceled: // stopSleep canceled the wait; the session is intact
	default:
		s.closeSleepConn()
		s.sleepErr = fmt.Errorf("waiting for the sleep lock of the inbox: %w", err)
	}
}

// stopSleep ends the wait of sleepConn for SLEEP. It repeats the cancel request, because the first
// request may arrive before the wait begins.
func (s *Sequencer) stopSleep(ctx context.Context) error {
	again := time.NewTicker(scanInterval)
	defer again.Stop()
	for {
		if _, err := s.conn.Exec(ctx, sqlWithdraw, s.sleepPID); err != nil {
			return fmt.Errorf("cancelling the wait for the sleep lock: %w", err)
		}
		select {
		case err := <-s.sleepResult:
			s.finishSleep(err)
			return nil
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closeSleepConn ends the session of sleepConn. This releases SLEEP, or ends the wait for SLEEP.
func (s *Sequencer) closeSleepConn() {
	if s.sleepResult != nil {
		s.cancelSleep()
		s.Log.Debug("the wait for the sleep lock ended with its session", zap.NamedError("result", <-s.sleepResult))
		s.sleepResult, s.cancelSleep = nil, nil
	}
	if s.sleepConn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = s.sleepConn.Close(ctx)
	}
	s.sleepConn, s.asleep = nil, false
}
