package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBaselineIsUpToDate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "sql")
	files, err := generate(os.DirFS(dir))
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "sql/%s is out of date: run go run ./scripts/baseline", name)
	}
}
