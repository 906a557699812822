package devdb

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPostgresStopsWhenItsOwnerIsKilled(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	process, postmaster := owner(t, dir)
	require.NoError(t, process.Kill())
	gone, err := awaitExit(testContext(t), postmaster, filepath.Join(dir, dataName), time.Minute)
	require.NoError(t, err)
	require.True(t, gone)
	require.NoFileExists(t, pidFile(filepath.Join(dir, dataName)), "a fast shutdown removes the file")
}
