package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

// The advisory locks of the inbox. The trigger belfry.inbox_notify and the package doc use the same
// numbers.
const (
	lockClass  int32 = 0x42454c46 // the first key of each lock: "BELF"
	leaderLock int32 = 7          // held by the sequencer
	sleepLock  int32 = 8          // SLEEP
	watchLock  int32 = 9          // WATCH
	awakeLock  int32 = 10         // AWAKE
)

// closeTimeout bounds the statements that end a session.
const closeTimeout = 2 * time.Second

var (
	sqlLock       = sql.Query("engine/inbox/lock")
	sqlUnlock     = sql.Query("engine/inbox/unlock")
	sqlResign     = sql.Query("engine/inbox/resign")
	sqlAdvanceIDs = sql.Query("engine/inbox/ids_advance")
)

// tryLead makes this instance the sequencer if no session holds the leader lock.
func (s *Sequencer) tryLead(ctx context.Context) (bool, error) {
	ctx, cancel := s.SequencerPool.Bounded(ctx)
	defer cancel()
	conn, err := s.SequencerPool.Acquire(ctx)
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
	err = AdvanceIDs(ctx, conn, s.Log)
	if err == nil {
		// Open producers may have left out their notification while the previous sequencer was
		// awake.
		err = s.lockWatch(ctx)
	}
	if err != nil {
		s.closeLeaderSession()
		return false, err
	}
	s.Metrics.takeovers.Inc()
	s.setLeading(true)
	// The previous sequencer may have died between a commit and the wake, or before it announced the
	// ready cursors. A heal finds such partitions.
	s.Pool.ReportBrokenConnection()
	s.Log.Info("this instance became the sequencer of the inbox")
	return true, nil
}

// setLeading records whether this instance is the sequencer, and calls OnLeading after a change.
func (s *Sequencer) setLeading(leading bool) {
	was := s.leading.Swap(leading)
	value := 0.0
	if leading {
		value = 1
	}
	s.Metrics.leading.Set(value)
	if was != leading && s.OnLeading != nil {
		s.OnLeading(leading)
	}
}

// dropLeadership releases a broken leader connection. The lock ended with its session.
func (s *Sequencer) dropLeadership() {
	s.closeSleepConn()
	s.watchLocked, s.awake = false, false
	s.conn.Release()
	s.conn = nil
	s.setLeading(false)
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
		s.Log.Debug("resigning as the sequencer failed; another instance takes over without a notification", zap.Error(err))
	}
	s.closeLeaderSession() // ends the locks even if the statement failed
}

// unlock releases a lock of the leader session.
func (s *Sequencer) unlock(ctx context.Context, id int32) error {
	if _, err := s.conn.Exec(ctx, sqlUnlock, lockClass, id); err != nil {
		s.closeLeaderSession()
		return fmt.Errorf("releasing lock %d of the inbox: %w", id, err)
	}
	return nil
}

// AdvanceIDs moves the id sequences past the ids in use. Sequences fall behind if rows were inserted
// without them: by logical replication, or by a copy of single tables. The server calls AdvanceIDs
// when it starts. Each new sequencer calls it too, because after a database is replaced (failover,
// restore), an instance becomes the sequencer again.
//
// AdvanceIDs runs one query on a few indexes, which ends with ctx. It returns the error of the
// database. If the role lacks the right to run the query, AdvanceIDs logs the missing right and
// returns nil.
func AdvanceIDs(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, log *zap.Logger,
) error {
	var advanced []string
	err := conn.QueryRow(ctx, sqlAdvanceIDs).Scan(&advanced)
	if postgres.SQLState(err) == postgres.InsufficientPrivilege {
		log.Warn("the id sequences were not checked, because the right is missing: "+
			"GRANT EXECUTE ON FUNCTION belfry.advance_ids() to the role of this server", zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("checking the id sequences: %w", err)
	}
	if len(advanced) > 0 {
		log.Warn("the id sequences were behind ids in use; they were moved past them", zap.Strings("tables", advanced))
	}
	return nil
}
