package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is a package with a test that always passes, and a test that fails in its first run.
const sample = `package sample

import (
	"os"
	"testing"
)

func TestSteady(t *testing.T) { t.Log("Error Trace: of no interest") }

func TestOnce(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if _, err := os.Stat("again"); err != nil {
			os.WriteFile("again", nil, 0o600)
			t.Fatal("the machine paused")
		}
	})
}
`

const always = `
func TestAlways(t *testing.T) { t.Fatal("it always fails") }
`

// runSample runs the tests of a package in a separate module. It returns the output and the list of unsteady tests.
func runSample(t *testing.T, source string) (output, listed string, err error) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	binary := filepath.Join(dir, "tests")
	build, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(build))
	require.NoError(t, os.Symlink(filepath.Join(root, ".bin"), filepath.Join(dir, ".bin")))
	for name, content := range map[string]string{"go.mod": "module sample\n", "sample_test.go": source} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	list := filepath.Join(dir, "unsteady")
	cmd := exec.CommandContext(t.Context(), binary, "./...", "--", "-count=1")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), unsteadyFile+"="+list)
	out, err := cmd.CombinedOutput()
	lines, _ := os.ReadFile(list) // missing if no test is unsteady
	return string(out), string(lines), err
}

func TestFailingOnceIsUnsteady(t *testing.T) {
	t.Parallel()
	output, listed, err := runSample(t, sample)
	require.NoError(t, err, output)
	require.Contains(t, output, "The slowest tests:")
	require.Contains(t, output, "UNSTEADY sample TestOnce: ")
	require.Contains(t, listed, "the machine paused")
	require.NotContains(t, listed, "TestSteady")
	require.NotContains(t, listed, "of no interest")
}

func TestFailingTwiceIsAFailure(t *testing.T) {
	t.Parallel()
	output, listed, err := runSample(t, sample+always)
	require.Error(t, err, output)
	require.Contains(t, output, "it always fails")
	require.NotContains(t, listed, "TestAlways")
}

// A package that fails after its tests counts as failed, for example because it leaves goroutines. It counts as
// failed even if the repetition without tests passes.
func TestPackageThatFailsAfterItsTestsIsAFailure(t *testing.T) {
	t.Parallel()
	const ending = `
func TestMain(m *testing.M) {
	code := m.Run()
	if _, err := os.Stat("ended"); err != nil {
		os.WriteFile("ended", nil, 0o600)
		code = 1
	}
	os.Exit(code)
}
`
	source := strings.ReplaceAll(sample, `t.Fatal("the machine paused")`, "")
	output, _, err := runSample(t, source+ending)
	require.Error(t, err, output)
	require.Contains(t, output, "FAILED sample, although its tests passed")
}
