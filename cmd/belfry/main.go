// Command belfry is the server and its tools: serve, dev, migrate, config and
// bench.
//
// It holds flags, signals and exit codes and nothing else; pkg/app wires the
// rooms. Nobody imports it. Exit codes: 0 after a clean stop, 1 when the work
// failed, 2 when the command line was wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signalContext()
	defer stop()
	return execute(ctx, args, stdout, stderr)
}

// execute runs the command args name and returns the exit code. It is the only
// place that prints an error.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	// A standard error that cannot be written leaves the exit code to tell.
	_, _ = fmt.Fprintf(stderr, "belfry: %v\n", err)
	var failed *runError
	if errors.As(err, &failed) {
		return 1
	}
	_, _ = fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return 2
}
