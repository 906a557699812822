package app

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A linker ignores the name of a variable that does not exist.
func TestBuildsSetTheVersion(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Version())
	for _, build := range []string{"../../Makefile", "../../Dockerfile"} {
		text, err := os.ReadFile(build)
		require.NoError(t, err)
		require.Contains(t, string(text), "-X github.com/belfry-mq/belfry/pkg/app.linkedVersion=", build)
	}
}
