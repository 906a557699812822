package devdb

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRootGetsAnotherAccount(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	as, err := accountFor(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	if os.Geteuid() != 0 {
		require.Equal(t, account{}, as)
		require.Nil(t, as.processAttributes().Credential)
		return
	}
	require.True(t, as.switched)
	require.NotZero(t, as.uid)

	// The owner of existing data stays the same, also an owner without a user name.
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, account{uid: 4711, gid: 4712, switched: true}.mkdir(filepath.Join(dir, "data")))
	as, err = accountFor(filepath.Join(dir, "data"))
	require.NoError(t, err)
	require.Equal(t, account{name: "4711", uid: 4711, gid: 4712, switched: true}, as)
}

func TestClosedFolderIsNamed(t *testing.T) {
	t.Parallel()
	home := filepath.Join(clusterDir(t), "home")
	inner := filepath.Join(home, "dev", "cluster")
	require.NoError(t, os.MkdirAll(inner, 0o755))
	stranger := account{name: "stranger", uid: fallbackID, gid: fallbackID, switched: true}
	require.Empty(t, stranger.closedParent(inner))

	require.NoError(t, os.Chmod(filepath.Dir(inner), 0o700))
	require.NoError(t, os.Chmod(home, 0o700))
	require.Equal(t, home, stranger.closedParent(inner), "the topmost closed folder")
	denied := fmt.Errorf("running: %w", fs.ErrPermission)
	err := stranger.explain(denied, inner, "/")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, home+" is closed to it")
	require.ErrorContains(t, err, "chmod o+x "+home)
	require.ErrorContains(t, stranger.explain(denied, "/", inner), binDirVariable)
	require.Equal(t, denied, account{}.explain(denied, inner, "/"), "the error of the own user stays as it is")

	cfg := testConfig(inner)
	if os.Geteuid() == 0 {
		_, err = Start(testContext(t), cfg)
		require.ErrorContains(t, err, home+" is closed to it")
		return
	}
	start(t, cfg)
}

func TestDefaultDirIsReachable(t *testing.T) {
	home := filepath.Join(clusterDir(t), "home")
	require.NoError(t, os.MkdirAll(home, 0o755))
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	dir, err := DefaultDir()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dir, home), dir)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(home, 0o700))
		dir, err = DefaultDir()
		require.NoError(t, err)
		require.Equal(t, "/var/lib/belfry/dev", dir, "the account of Postgres may not enter the home folder of root")
		return
	}
	t.Setenv("XDG_DATA_HOME", "/somewhere")
	dir, err = DefaultDir()
	require.NoError(t, err)
	require.True(t, dir == "/somewhere/belfry/dev" || strings.Contains(dir, "/Library/"), dir)
}
