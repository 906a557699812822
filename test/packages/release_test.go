//go:build installed

package packages_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

const (
	// version marks packages of this test. Only such a package is removed if an earlier test left it.
	version = "v0.0.1-test"
	// debian is this version in the words of dpkg.
	debian = "0.0.1~test-1"
	// epoch is the time of all files.
	epoch = 1700000000
	base  = "belfry-" + version + "-linux-amd64"
)

// sources lists what a build reads.
var sources = []string{"Makefile", "LICENSE", "THIRD_PARTY_NOTICES", "go.mod", "go.sum", "cmd", "config", "deploy", "pkg", "scripts", "sql"}

func TestMain(m *testing.M) { pgtest.Main(m) }

// output runs a program and returns what it printed.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", program, strings.Join(args, " "), text)
	return string(text)
}

// place copies a file or a folder.
func place(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// build copies the repository to folder and builds a release there. No module is downloaded.
func build(folder, umask, zone string) (dist string, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	if text, err := exec.Command("make", "-C", root, "release-tools").CombinedOutput(); err != nil {
		return "", fmt.Errorf("make release-tools: %w: %s", err, text)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(filepath.Join(root, ".bin"), filepath.Join(folder, ".bin")); err != nil {
		return "", err
	}
	for _, name := range sources {
		if err := place(filepath.Join(root, name), filepath.Join(folder, name)); err != nil {
			return "", err
		}
	}
	release := exec.Command("sh", "-c", "umask "+umask+"; exec make release VERSION="+version+" PLATFORMS=linux/amd64")
	release.Dir = folder
	release.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", epoch), "TZ="+zone, "GOPROXY=off", "GOFLAGS=-mod=readonly")
	if text, err := release.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make release: %w: %s", err, text)
	}
	return filepath.Join(folder, "dist"), nil
}

// TestARelease builds a release once, and tests it.
func TestARelease(t *testing.T) {
	dist, err := build(filepath.Join(t.TempDir(), "first"), "022", "UTC")
	require.NoError(t, err)
	for name, test := range map[string]func(t *testing.T, dist string){
		"two builds in two folders are equal": testTwoBuildsAreEqual,
		"checksums name every file":           testChecksums,
		"the archive has one folder":          testArchive,
		"archive as documented":               testArchiveAsDocumented,
		"components are those of the binary":  testComponents,
		"package for Debian":                  testDebian,
		"package for Red Hat":                 testRedHat,
	} {
		t.Run(name, func(t *testing.T) { test(t, dist) })
	}
}

func testTwoBuildsAreEqual(t *testing.T, one string) {
	two, err := build(filepath.Join(t.TempDir(), "another", "folder"), "077", "Asia/Kathmandu")
	require.NoError(t, err)
	entries, err := os.ReadDir(one)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		a, err := os.ReadFile(filepath.Join(one, entry.Name()))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(two, entry.Name()))
		require.NoError(t, err)
		require.Equal(t, sha256.Sum256(a), sha256.Sum256(b), entry.Name())
	}
	require.Equal(t, []string{"SHA256SUMS", base + ".cdx.json", base + ".deb", base + ".rpm", base + ".tar.gz"}, names)
}

func testChecksums(t *testing.T, dist string) {
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dist
	text, err := check.CombinedOutput()
	require.NoError(t, err, string(text))
	require.Equal(t, 4, strings.Count(string(text), ": OK"), string(text))
}

func testArchive(t *testing.T, dist string) {
	f, err := os.Open(filepath.Join(dist, base+".tar.gz"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	archive, modes := tar.NewReader(zipped), map[string]int64{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name, ok := strings.CutPrefix(header.Name, base+"/")
		require.True(t, ok, header.Name)
		require.Equal(t, time.Unix(epoch, 0).UTC(), header.ModTime.UTC(), name)
		require.Zero(t, header.Uid+header.Gid, name)
		modes[name] = header.Mode
	}
	require.EqualValues(t, 0o755, modes["belfry"])
	for _, name := range []string{
		"LICENSE", "THIRD_PARTY_NOTICES", "belfry.yaml", "man/belfry.1", "man/belfry-serve.1",
		"completions/belfry.bash", "completions/_belfry", "completions/belfry.fish", "completions/belfry.ps1",
	} {
		require.EqualValues(t, 0o644, modes[name], name)
	}
}

func testComponents(t *testing.T, dist string) {
	text, err := os.ReadFile(filepath.Join(dist, base+".cdx.json"))
	require.NoError(t, err)
	var list struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	require.NoError(t, json.Unmarshal(text, &list))
	require.Equal(t, "CycloneDX", list.Format)
	require.Equal(t, version, list.Metadata.Component.Version)
	have := map[string]string{}
	for _, c := range list.Components {
		have[c.Name] = c.Version
	}
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	pgx := regexp.MustCompile(`github\.com/jackc/pgx/v5 (\S+)`).FindStringSubmatch(string(mod))
	require.Equal(t, pgx[1], have["github.com/jackc/pgx/v5"])
	require.NotEmpty(t, have["std"], "the standard library")
	require.NotContains(t, have, "github.com/fergusstrange/embedded-postgres", "a release has no private Postgres")
	require.NotContains(t, have, "github.com/cpuguy83/go-md2man/v2", "a release does not write its manual pages")
}
