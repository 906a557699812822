package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoticesAreUpToDate(t *testing.T) {
	t.Parallel()
	want, err := generate()
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join("..", "..", file))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "THIRD_PARTY_NOTICES is out of date: run go run ./scripts/notices")
}
