package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// batchPause is the pause between two checks for an open transaction of the sequencer. batchPatience is the time
// limit of these checks.
const (
	batchPause    = time.Millisecond
	batchPatience = 2 * time.Second
)

// endSequencer ends the session of the sequencer during its transaction, several times.
func endSequencer(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	times, ended := 1+choose.IntN(6), 0
	for range times {
		n, err := w.endBatch(ctx)
		if err != nil {
			return "", err
		}
		ended += n
		if !Pause(ctx, between(choose, 0, 300*time.Millisecond)) {
			break
		}
	}
	return fmt.Sprintf("%d sessions during a batch", ended), nil
}

// endBatch waits until the session with the sequencer lock has uncommitted changes, and then ends the session.
func (w *World) endBatch(ctx context.Context) (ended int, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchPatience)
	defer cancel()
	for ended == 0 {
		err := w.admin.QueryRow(ctx, `SELECT count(pg_terminate_backend(l.pid))
			FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.locktype = 'advisory' AND l.classid = x'42454c46'::integer::oid AND l.objid = 7 AND l.granted
			  AND a.datname = $1 AND a.backend_xid IS NOT NULL`, databaseName).Scan(&ended)
		if err != nil && ctx.Err() == nil {
			return 0, w.ignoreUnavailable(err)
		}
		if ended == 0 && !Pause(ctx, batchPause) {
			return 0, nil // the sequencer had no rows to move
		}
	}
	return ended, nil
}
