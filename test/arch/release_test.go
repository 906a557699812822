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
	for name, build := range map[string]string{
		"Dockerfile":               `go build -tags release .*/belfry`,
		"scripts/release/build.go": `"build"\}, r\.flags\("release"\)\.\.\.\)`,
	} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Regexp(t, build, string(text), name)
	}
}

// THIRD_PARTY_NOTICES must have the modules of each platform.
func TestNoticesAreForThePlatformsOfARelease(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	notices, err := os.ReadFile(filepath.Join(root, "scripts/notices/main.go"))
	require.NoError(t, err)
	released := regexp.MustCompile(`(?m)^PLATFORMS \?= (.*)$`).FindSubmatch(makefile)
	listed := regexp.MustCompile(`(?m)^var platforms = \[\]string\{(.*)\}$`).FindSubmatch(notices)
	require.NotNil(t, released)
	require.NotNil(t, listed)
	require.Equal(t, strings.Fields(string(released[1])), strings.FieldsFunc(string(listed[1]), func(r rune) bool { return strings.ContainsRune(`", `, r) }))
}

// The machine of a release may have no time zones, such as the image.
func TestAReleaseHasTimeZones(t *testing.T) {
	t.Parallel()
	require.Contains(t, strings.Fields(packagesOf(t, "-tags", "release")), "time/tzdata")
}
