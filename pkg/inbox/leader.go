package inbox

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/sql"
)

// The advisory locks of the inbox. The trigger belfry.inbox_notify and the package doc use the same
// numbers.
const (
	// lockClass is the first key of each lock: "BELF".
	lockClass int32 = 0x42454c46
	// leaderLock is held by the sequencer.
	leaderLock int32 = 7
	// sleepLock (SLEEP) is shared by producers that leave out their notification, until their
	// transaction ends. A sleeping sequencer holds it exclusively.
	sleepLock int32 = 8
	// watchLock (WATCH) is held by the sequencer while such producers may exist.
	watchLock int32 = 9
	// awakeLock (AWAKE) is held by the sequencer while it is awake, that is, while new producers may
	// leave out their notification.
	awakeLock int32 = 10
)

// closeTimeout bounds the statements that end a session.
const closeTimeout = 2 * time.Second

var (
	sqlLock   = sql.Query("inbox/lock")
	sqlUnlock = sql.Query("inbox/unlock")
	sqlResign = sql.Query("inbox/resign")
)

// tryLead makes this instance the sequencer if no session holds the leader lock.
func (s *Sequencer) tryLead(ctx context.Context) (bool, error) {
	ctx, cancel := s.own.Bounded(ctx)
	defer cancel()
	conn, err := s.own.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("connecting: %w", err)
	}
	var locked bool
	if err := conn.QueryRow(ctx, sqlLock, lockClass, leaderLock).Scan(&locked); err != nil {
		_ = conn.Conn().Close(ctx) // the session may hold the lock
		conn.Release()
		return false, fmt.Errorf("taking the leader lock of the inbox: %w", err)
	}
	if !locked {
		conn.Release()
		return false, nil
	}
	s.conn, s.watching, s.firstRow, s.scanned = conn, false, 0, emptySnapshot
	err = AdvanceIDs(ctx, conn, s.log)
	if err == nil {
		// Producers may be open that left out their notification because of the sequencer before.
		err = s.lockWatch(ctx)
	}
	if err != nil {
		s.closeLeaderSession()
		return false, err
	}
	s.metrics.takeovers.Inc()
	s.metrics.leading.Set(1)
	s.leading.Store(true)
	// The sequencer before may have died between a commit and its wake, or before it published the
	// wake. A heal finds such partitions.
	s.pool.ReportBrokenConnection()
	s.log.Info("this instance became the sequencer of the inbox")
	return true, nil
}

// dropLeadership releases a broken leader connection. The lock ended with its session.
func (s *Sequencer) dropLeadership() {
	s.closeSleepConn()
	s.watchLocked, s.awake = false, false
	s.conn.Release()
	s.conn = nil
	s.metrics.leading.Set(0)
	s.leading.Store(false)
}

// closeLeaderSession ends the leader session after an error, because it is unknown which locks the
// session holds.
func (s *Sequencer) closeLeaderSession() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.conn.Conn().Close(ctx)
	s.dropLeadership()
}

// resign releases the leader lock and notifies the other instances.
func (s *Sequencer) resign(ctx context.Context) {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sqlResign); err != nil {
		s.log.Debug("resigning as the sequencer failed; another instance takes over without a notification", zap.Error(err))
	}
	_ = s.conn.Conn().Close(ctx) // ends the locks even if the statement failed
	s.dropLeadership()
}

// unlock releases a lock of the leader session.
func (s *Sequencer) unlock(ctx context.Context, id int32) error {
	if _, err := s.conn.Exec(ctx, sqlUnlock, lockClass, id); err != nil {
		s.closeLeaderSession()
		return fmt.Errorf("releasing lock %d of the inbox: %w", id, err)
	}
	return nil
}
