// Command belfry is the server and its tools.
//
// The package only handles flags, signals and exit codes; pkg/app connects the packages. No package imports it. The
// exit code is 0 after a clean stop, 1 if the work failed, and 2 if the command line is wrong. pkg/cli defines more
// codes for the commands that speak to a server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // the time zones of schedules, for machines without them

	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/process/logbuffer"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signalContext(isServer(args))
	defer stop()
	return execute(ctx, args, stdout, stderr)
}

// isServer reports whether args start a server. A server takes some time to stop.
func isServer(args []string) bool {
	cmd, _, err := newRootCmd().Find(args)
	return err == nil && (cmd.Name() == "serve" || cmd.Name() == "dev")
}

// execute runs the command in args and returns the exit code. Only execute prints errors. It waits at most 1 s for
// the reader of standard error.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	report := logbuffer.New(stderr, nil)
	defer func() { _ = report.Sync() }()
	code, printed := session.ExitCode(err)
	if printed {
		// If standard error cannot be written, the exit code still shows the failure.
		_, _ = fmt.Fprintf(report, "belfry: %v\n", err)
	}
	var failed *runError
	if errors.As(err, &failed) && (code != session.ExitUsage || !printed) {
		return code
	}
	_, _ = fmt.Fprintf(report, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return 2
}
