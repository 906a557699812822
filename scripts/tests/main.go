// Command tests runs tests with gotestsum. The arguments are the packages, then --, then the flags of go test:
//
//	go run ./scripts/tests ./pkg/... ./test/model -- -race
//
// A failed test is run once more, after all other tests. If it fails again, the command exits with 1. After a data
// race, or after more than five failures, nothing is run again. At the end the command prints the slowest tests, and
// the unsteady tests: those that failed once and then passed. It also appends the unsteady tests to the file in
// BELFRY_UNSTEADY, one per line.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	program    = ".bin/gotestsum" // the Makefile installs it
	repeatable = 5                // if more tests fail, no test is run again
	slowest    = 10
	// unsteadyFile is the environment variable with the file for the unsteady tests.
	unsteadyFile = "BELFRY_UNSTEADY"
)

func main() {
	packages, flags := os.Args[1:], []string(nil)
	if at := slices.Index(packages, "--"); at >= 0 {
		packages, flags = packages[:at], packages[at+1:]
	}
	failed, err := run(packages, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// run runs the tests. It reports whether a test failed twice, or a package failed without a failed test.
func run(packages, flags []string) (failed bool, err error) {
	dir, err := os.MkdirTemp("", "belfry-tests-")
	if err != nil {
		return false, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	record := filepath.Join(dir, "events.json")
	args := append([]string{
		"--format=pkgname", "--hide-summary=skipped", "--jsonfile=" + record, "--packages=" + strings.Join(packages, " "),
		"--rerun-fails=1", fmt.Sprintf("--rerun-fails-max-failures=%d", repeatable), "--rerun-fails-abort-on-data-race",
		"--rerun-fails-run-root-test", "--",
	}, flags...)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if failed = errors.As(err, &exit); err != nil && !failed {
		return false, fmt.Errorf("running gotestsum (make test installs it): %w", err)
	}
	file, err := os.Open(record)
	if err != nil {
		return failed, fmt.Errorf("reading the results: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := read(file)
	if err != nil {
		return failed, err
	}
	r.print(os.Stdout)
	return failed || len(r.broken) > 0, r.list(os.Getenv(unsteadyFile))
}

// print prints the slowest and the unsteady tests.
func (r *results) print(w io.Writer) {
	all := slices.SortedFunc(maps.Values(r.tests), func(a, b *test) int {
		return cmp.Or(cmp.Compare(b.longest, a.longest), cmp.Compare(a.name, b.name))
	})
	printf(w, "\nThe slowest tests:\n")
	for _, t := range all[:min(len(all), slowest)] {
		printf(w, "%7.1f s  %s %s\n", t.longest.Seconds(), t.pkg, t.name)
	}
	for _, pkg := range r.broken {
		printf(w, "FAILED %s, although its tests passed\n", pkg)
	}
	for _, line := range r.unsteady() {
		printf(w, "UNSTEADY %s\n", line)
	}
}

// list appends the unsteady tests to a file. It does nothing if name is empty.
func (r *results) list(name string) error {
	lines := r.unsteady()
	if name == "" || len(lines) == 0 {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("listing the unsteady tests: %w", err)
	}
	_, err = io.WriteString(file, strings.Join(lines, "\n")+"\n")
	return errors.Join(err, file.Close())
}

// printf writes to a terminal or a log. It ignores errors, because the tests must continue.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
