// Command ways counts the files that take part in one pop, one push and one ack of a running server. Run it in the root
// of the repository:
//
//	go run ./scripts/ways         # numbers and a line for each package
//	go run ./scripts/ways -files  # every file
//
// The command builds itself with a coverage counter in each block of the server. It starts a private Postgres and two
// servers, and repeats the three requests. The pop waits until a push to the other server wakes it. A block takes
// part if the intervals with the request ran it more often than the same number of intervals without a request. So
// background work does not count: see takesPart. The SQL files are the statements that take part, and the functions
// that these statements call directly or indirectly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

const module = "github.com/belfry-mq/belfry/"

// These roles are the first argument of the program that is built with counters.
const (
	measureRole = "measure"
	serveRole   = "serve"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ways:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == serveRole {
		return serveUntilEOF(ctx, args[1], os.Stdin, os.Stdout)
	}
	if len(args) == 3 && args[0] == measureRole {
		return measureAndPrint(ctx, args[1], args[2] == "true")
	}
	flags := flag.NewFlagSet("ways", flag.ContinueOnError)
	files := flags.Bool("files", false, "print every file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return buildAndRun(ctx, *files)
}

// buildAndRun builds this command with counters and runs it in the role measure.
func buildAndRun(ctx context.Context, files bool) (err error) {
	dir, err := os.MkdirTemp("", "belfry-ways-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // Postgres may run as another user
		return fmt.Errorf("opening the folder for Postgres: %w", err)
	}
	program, exit := filepath.Join(dir, "ways"), filepath.Join(dir, "exit")
	if err := os.Mkdir(exit, 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	err = execute(ctx, nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./pkg/...,./config,./sql,./scripts/ways", "-o", program, "./scripts/ways")
	if err != nil {
		return err
	}
	// A program that measures its coverage writes files to this folder when it ends. Nothing reads these files.
	return execute(ctx, []string{"GOCOVERDIR=" + exit}, program, measureRole, dir, fmt.Sprint(files))
}

// execute runs a program. The program writes to the output of this process. The end of ctx interrupts the program.
func execute(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", filepath.Base(name), err)
	}
	return nil
}

func measureAndPrint(ctx context.Context, dir string, files bool) error {
	found, err := measure(ctx, dir)
	if err != nil {
		return err
	}
	for _, w := range found {
		if err := w.print(os.Stdout, files); err != nil {
			return err
		}
	}
	return nil
}

// printf writes to a terminal or a pipe, and ignores errors.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
