package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
)

func TestDevKeyIsMadeOnceAndPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := devKey(dir)
	require.NoError(t, err)
	require.NoError(t, seal.Config{Key: key}.Validate())
	info, err := os.Stat(filepath.Join(dir, devKeyName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again, err := devKey(dir)
	require.NoError(t, err)
	require.Equal(t, key, again, "a later run uses the key of the first run")
	other, err := devKey(t.TempDir())
	require.NoError(t, err)
	require.NotEqual(t, key, other)

	for _, damaged := range []string{"", key[:63].Reveal()} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, devKeyName), []byte(damaged), 0o600))
		_, err = devKey(dir)
		require.ErrorContains(t, err, "does not hold 64 hexadecimal digits")
	}
}
