package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// floorSetting returns the name of the session setting that holds the scan floor of the only group.
func (b *bench) floorSetting() (setting string) {
	b.t.Helper()
	b.scan(`SELECT 'belfry.floor_' || id FROM belfry.consumer_group`, nil, &setting)
	return setting
}

// outdateHeld holds a snapshot until the test ends, and writes versions that the snapshot keeps.
// Then it makes all cursors due now.
func (b *bench) outdateHeld() {
	b.t.Helper()
	b.keepStatistics()
	holder := b.begin(b.connect())
	enginetest.Exec(b.t, holder, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM belfry.cursor`)
	b.outdate(bursts * versions)
	b.exec(`UPDATE belfry.cursor SET ready_at = clock_timestamp()`)
}

// outdateUntilSlow calls outdateHeld, and writes more versions until a scan is slow enough to save
// a floor. So the tests also work on a fast machine.
func (b *bench) outdateUntilSlow() {
	b.t.Helper()
	b.outdateHeld()
	conn := b.connect()
	for scans := 0; scans < 50; scans++ {
		var slow bool
		tx := b.begin(conn)
		require.Len(b.t, b.sqlPop(tx, "g", 1, 1), 1)
		require.NoError(b.t, tx.QueryRow(b.t.Context(), `SELECT coalesce(to_timestamp(split_part(nullif(current_setting($1, true), ''), '/', 2)::bigint / 1e6)
			> clock_timestamp() + interval '60 ms', false)`, b.floorSetting()).Scan(&slow))
		require.NoError(b.t, tx.Rollback(b.t.Context()))
		switch {
		case scans == 0: // the first scan of a session is always slow
		case slow:
			return
		default:
			b.outdate(bursts * versions)
			b.exec(`UPDATE belfry.cursor SET ready_at = clock_timestamp()`)
		}
	}
	require.Fail(b.t, "no scan is slow enough for a floor")
}

// A held snapshot keeps all old versions. The first pop reads all old versions and saves a floor.
// With the floor, the next pops read no old versions, even if other sessions have locked the first
// cursors. An ack and settle_drained read no old versions either.
func TestSQLConsumersDoNotReadOldVersions(t *testing.T) {
	b := newBench(t, "g")
	for _, partition := range numbered("p", 20) {
		b.push(partition, "m1", "m2")
	}
	b.outdateHeld()
	rival := b.begin(b.connect())
	enginetest.Exec(t, rival, `SELECT 1 FROM belfry.cursor WHERE partition_id IN (
		SELECT partition_id FROM belfry.cursor ORDER BY ready_at LIMIT 3) FOR UPDATE`)
	tx := b.begin(b.connect())
	const pop = `SELECT lease FROM belfry.pop('q', 'g')`
	require.Greater(t, b.buffers(tx, pop), walked, "the old versions exist")
	enginetest.Exec(t, tx, `SELECT set_config($1, regexp_replace(current_setting($1), '\d+$',
		(extract(epoch FROM clock_timestamp() + interval '9 s') * 1000000)::bigint::text), false)`, b.floorSetting())
	require.Less(t, b.buffers(tx, pop), most, "a pop with a floor")
	// The lookup of the partition by its name reads old versions of the partition.
	require.Less(t, b.buffers(tx, `SELECT lease FROM belfry.pop('q', 'g', partition => 'p7')`), walked, "a pop from one partition")
	popped := b.sqlPop(tx, "g", 3, 2)
	require.Len(t, popped, 3)
	b.buffers(tx, `SELECT belfry.ack($1, status => 'retry')`, popped[0].Lease) // reads the catalog
	require.Less(t, b.buffers(tx, `SELECT belfry.ack($1)`, popped[len(popped)-1].Lease), walked, "an ack")
	var partition, group int64
	b.scan(`SELECT max(partition_id), max(group_id) FROM belfry.cursor`, nil, &partition, &group)
	require.Less(t, b.buffers(tx, `SELECT belfry.settle_drained($1, $2)`, []int64{partition}, []int64{group}), walked, "settle_drained")
}

// If the newest version of a cursor is locked or not due, a claim from its partition and
// settle_drained read no older versions, with any statistics.
func TestOnlyTheNewestVersionOfACursorIsRead(t *testing.T) {
	b := newBench(t, "g")
	for _, partition := range numbered("p", 20) {
		b.push(partition, "m") // rows share pages
	}
	b.outdateHeld()
	var partitions []int64
	var group int64
	b.scan(`SELECT array_agg(partition_id ORDER BY partition_id), min(group_id) FROM belfry.cursor`, nil, &partitions, &group)
	held := partitions[1]
	b.exec(`UPDATE belfry.cursor SET ready_at = clock_timestamp() + interval '1 h' WHERE partition_id = $1`, partitions[2])
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL WHERE partition_id = $1`, partitions[3])
	rival := b.begin(b.connect())
	enginetest.Exec(t, rival, `SELECT 1 FROM belfry.cursor WHERE partition_id = $1 FOR UPDATE`, held)
	conn, err := b.pool.Acquire(t.Context()) // with the settings of the server
	require.NoError(t, err)
	defer conn.Release()
	once := func(statement string, args []any) (buffers int) {
		tx := b.begin(conn.Conn())
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		return b.buffers(tx, statement, args...)
	}
	// The first call, and the first call after an ANALYZE, also read the catalog.
	touched := func(statement string, args ...any) (buffers int) {
		return min(once(statement, args), once(statement, args))
	}
	claim := func(partition int64) int {
		return touched(sql.Query("engine/store/claim"), group, partition, 1, 1, [16]byte(queue.NewID()), nil, nil, false, b.epoch(), nil, true)
	}
	settle := func(partition int64) int {
		return touched(sql.Query("engine/store/settle_drained"), []int64{partition}, []int64{group})
	}
	for _, statistics := range []string{"old", "new"} {
		if statistics == "new" {
			b.exec("ANALYZE belfry.cursor")
		}
		for _, partition := range partitions[:4] {
			require.Less(t, claim(partition), most, "a claim with %s statistics", statistics)
			require.Less(t, settle(partition), most, "settle_drained with %s statistics", statistics)
		}
	}
}

// The floor of a session is not above the ready_at of any cursor that the scan saw, because a
// locked cursor may become free unchanged, and a drained cursor may get a message.
func TestASQLFloorIsBelowEveryDueCursor(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string]func(b *bench, rival pgx.Tx){
		"held": func(b *bench, rival pgx.Tx) {
			enginetest.Exec(b.t, rival, `SELECT 1 FROM belfry.cursor WHERE ready_at < clock_timestamp() - interval '1 min' FOR UPDATE`)
		},
		"empty": func(b *bench, _ pgx.Tx) {
			b.exec(`UPDATE belfry.cursor SET committed = 1 WHERE ready_at < clock_timestamp() - interval '1 min'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			for _, partition := range numbered("p", 20) {
				b.push(partition, "m")
			}
			b.outdateUntilSlow()
			b.exec(`UPDATE belfry.cursor SET ready_at = clock_timestamp() - interval '30 min'
				WHERE partition_id = (SELECT min(id) FROM belfry.partition)`)
			rival := b.begin(b.connect())
			hidden(b, rival)
			conn := b.connect()
			var kept bool
			old := b.begin(conn)
			enginetest.Exec(t, old, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
			require.Len(t, b.sqlPop(old, "g", 1, 1), 1)
			require.NoError(t, old.QueryRow(t.Context(), `SELECT coalesce(current_setting($1, true), '') <> ''`, b.floorSetting()).Scan(&kept))
			require.False(t, kept, "a scan of an old snapshot saves no floor")
			require.NoError(t, old.Rollback(t.Context()))
			require.Len(t, b.sqlPop(conn, "g", 9, 9), 9)
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT to_timestamp(split_part(current_setting($1), '/', 1)::bigint / 1e6)
				BETWEEN min(ready_at) - interval '1 ms' AND min(ready_at) FROM belfry.cursor`, b.floorSetting()).Scan(&kept))
			require.True(t, kept, "the floor is the ready_at of the first cursor")
		})
	}
}

// A floor hides the cursors below it until it expires.
func TestASQLFloorExpires(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "m")
	conn := b.connect()
	floor := func(until string) {
		enginetest.Exec(t, conn, `SELECT set_config($1, format('%s/%s', (extract(epoch FROM clock_timestamp() + interval '1 h') * 1000000)::bigint,
			(extract(epoch FROM clock_timestamp() + $2::interval) * 1000000)::bigint), false)`, b.floorSetting(), until)
	}
	floor("9 s")
	require.Empty(t, b.sqlPop(conn, "g", 1, 1), "the floor is used")
	for _, until := range []string{"-1 ms", "1 min"} {
		floor(until)
		tx := b.begin(conn)
		require.Len(t, b.sqlPop(tx, "g", 1, 1), 1, "an expired floor and a floor with an impossible expiry are ignored: %s", until)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	for _, text := range []string{"", "x", "1/", "99999999999999999999/99999999999999999999", "-1/5"} {
		enginetest.Exec(t, conn, `SELECT set_config($1, $2, false)`, b.floorSetting(), text)
		tx := b.begin(conn)
		require.Len(t, b.sqlPop(tx, "g", 1, 1), 1, "%q is not a floor", text)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// A floor lasts longer after a slower scan. A fast scan saves no floor.
func TestASQLFloorLastsInProportionToItsScan(t *testing.T) {
	b := newBench(t)
	conn := b.connect()
	var now time.Time
	b.scan(`SELECT clock_timestamp()`, nil, &now)
	for i, c := range []struct {
		took string
		kept time.Duration
	}{{"2 ms", 0}, {"10 ms", 200 * time.Millisecond}, {"1 min", 10 * time.Second}} {
		setting := fmt.Sprint("belfry.floor_", i)
		enginetest.Exec(t, conn, `SELECT belfry.save_scan_floor($1, $2, $2, $3::interval)`, setting, now, c.took)
		for at, within := range map[time.Time]bool{
			now.Add(c.kept - time.Millisecond): c.kept > 0,
			now.Add(c.kept + time.Millisecond): false,
		} {
			require.Equal(t, within, enginetest.Value[bool](t, conn, `SELECT belfry.load_scan_floor($1, $2) > '-infinity'`, setting, at), "%s, after %s", c.took, at.Sub(now))
		}
	}
}
