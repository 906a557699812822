//go:build installed

package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documented returns the commands of the first block of a section in docs/install.md, for the version of this test.
func documented(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, ok, "docs/install.md has no section %q", section)
	_, rest, ok = strings.Cut(rest, "\n```sh\n")
	require.True(t, ok, "the section %q has no block", section)
	block, _, _ := strings.Cut(rest, "\n```")
	return strings.Split(strings.ReplaceAll(block, "v1.0.0", version), "\n")
}

// follow runs a documented command in dir and returns its output. The test is root already, and apt-get asks nothing.
func follow(t *testing.T, dir, command string) string {
	t.Helper()
	answers := filepath.Join(t.TempDir(), "apt.conf")
	require.NoError(t, os.WriteFile(answers, []byte(`APT::Get::Assume-Yes "true";`), 0o600))
	run := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", `sudo() { "$@"; }; `+command)
	run.Dir = dir
	run.Env = append(os.Environ(), "APT_CONFIG="+answers, "DEBIAN_FRONTEND=noninteractive")
	text, err := run.CombinedOutput()
	require.NoError(t, err, "%s: %s", command, text)
	return string(text)
}

// testArchiveAsDocumented installs the archive as docs/install.md says.
func testArchiveAsDocumented(t *testing.T, dist string) {
	const target = "/usr/local/bin/belfry"
	require.NoFileExists(t, target, "the test would replace and remove this file")
	t.Cleanup(func() { _ = os.Remove(target) })
	dir := t.TempDir()
	for _, name := range []string{"SHA256SUMS", base + ".tar.gz"} {
		text, err := os.ReadFile(filepath.Join(dist, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	var said []string
	for _, command := range documented(t, "An archive") {
		said = append(said, follow(t, dir, command))
	}
	require.Equal(t, []string{base + ".tar.gz: OK\n", "", "", "belfry " + version + "\n"}, said)
}
