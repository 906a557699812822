package world

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestThePrimaryChanges fails over several times, until it has killed one primary and fenced another.
func TestThePrimaryChanges(t *testing.T) {
	t.Parallel()
	f := Fault{Name: failsOver, run: failOver}
	w := newWorld(t, f)
	over, cancel := context.WithCancel(t.Context())
	cancel() // the fault does not pause
	var killed, fenced int
	for seed := uint64(0); killed == 0 || fenced == 0; seed++ {
		old := w.leading
		_, err := w.Database().Exec(t.Context(), "CREATE TABLE IF NOT EXISTS note AS SELECT 'kept' AS text")
		require.NoError(t, err)
		result, err := w.Inject(over, f, rand.New(rand.NewPCG(seed, 0)))
		require.NoError(t, err)
		require.Equal(t, always, result.Excuse)
		if strings.Contains(result.What, "killed") {
			killed++
		} else {
			fenced++
		}
		require.Equal(t, 1-old, w.leading)
		require.NoError(t, w.Recover(t.Context()))
		w.Database().Reset() // its connections lead to the old primary
		var text, address string
		require.NoError(t, w.Database().QueryRow(t.Context(), "SELECT text FROM note").Scan(&text))
		require.NoError(t, w.Database().QueryRow(t.Context(), "SHOW data_directory").Scan(&address))
		require.Equal(t, "kept", text)
		require.Equal(t, filepath.Join(w.nodes[w.leading].Dir(), "data"), address)
	}
}

// TestTheDiskFills needs the permission to mount. Without this permission, it requires that New reports the reason.
func TestTheDiskFills(t *testing.T) {
	t.Parallel()
	f := Fault{Name: fillsDisk, run: fillDisk, obstacle: cannotMount}
	if cannotMount(t.Context()) != nil {
		_, err := New(t.Context(), t.TempDir(), 1, []Fault{f}, "")
		require.ErrorContains(t, err, "mounting a small tmpfs")
		return
	}
	w := newWorld(t, f)
	wal, err := os.Readlink(filepath.Join(w.primary().Dir(), "data", "pg_wal"))
	require.NoError(t, err)
	require.Equal(t, w.volume.dir, filepath.Dir(wal))
	for seed := uint64(0); ; seed++ {
		result, err := w.Inject(t.Context(), f, rand.New(rand.NewPCG(seed, 0)))
		require.NoError(t, err)
		require.NoFileExists(t, w.volume.filler())
		require.NoError(t, w.Recover(t.Context()))
		if strings.Contains(result.What, "Postgres went down") {
			break
		}
	}
	log, err := os.ReadFile(filepath.Join(w.primary().Dir(), "postgres.log.old"))
	if err != nil || !strings.Contains(string(log), "No space left on device") { // Postgres restarted by itself
		log, err = os.ReadFile(filepath.Join(w.primary().Dir(), "postgres.log"))
		require.NoError(t, err)
	}
	require.Contains(t, string(log), "No space left on device")
}

// TestAStandbyKeepsItsWALDirectory requires that the copy of the primary does not replace the link to the moved WAL.
func TestAStandbyKeepsItsWALDirectory(t *testing.T) {
	t.Parallel()
	primary, standby := pgtest.OwnCluster(t), pgtest.OwnCluster(t)
	require.NoError(t, standby.Stop(t.Context()))
	elsewhere := filepath.Join(standby.Dir(), "wal")
	require.NoError(t, moveWAL(t.Context(), standby, elsewhere))
	require.NoError(t, pgtest.Follow(t.Context(), primary, standby))
	wal, err := os.Readlink(filepath.Join(standby.Dir(), "data", "pg_wal"))
	require.NoError(t, err)
	require.Equal(t, elsewhere, wal)
	files, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	require.NoError(t, primary.Kill())
	require.NoError(t, pgtest.Promote(t.Context(), standby))
}
