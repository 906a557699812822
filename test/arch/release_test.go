package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// devOnly matches the packages that run a private Postgres for development.
var devOnly = regexp.MustCompile(`(?m)^(github\.com/belfry-mq/belfry/pkg/postgres/devdb|github\.com/fergusstrange/embedded-postgres)\b.*$`)

func packagesOf(t *testing.T, flags ...string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append(append([]string{"list", "-deps"}, flags...), "./cmd/belfry")...)
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	return string(out)
}

func TestAReleaseHasNoPrivatePostgres(t *testing.T) {
	t.Parallel()
	require.Regexp(t, devOnly, packagesOf(t), "the build for development must contain the private Postgres")
	require.Empty(t, devOnly.FindAllString(packagesOf(t, "-tags", "release"), -1))
	for _, name := range []string{"Makefile", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Regexp(t, `go build -tags release .*(dist/|/belfry)`, string(text), name)
	}
}

// The machine of a release may have no time zones, such as the image.
func TestAReleaseHasTimeZones(t *testing.T) {
	t.Parallel()
	require.Contains(t, strings.Fields(packagesOf(t, "-tags", "release")), "time/tzdata")
}
