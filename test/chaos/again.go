package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// unsteadyFile is the environment variable with a file name. The test appends a line to this file for each unsteady
// run.
const unsteadyFile = "BELFRY_UNSTEADY"

// runFunc performs one run. Its error lists the broken rules.
type runFunc func(ctx context.Context, s settings, out io.Writer) error

// runTwice performs a run. If the run broke only time limits, a busy machine may be the reason. Then runTwice
// performs the run once more with the same seed and keeps both histories. It fails if the second run fails too. Any
// other broken rule is an error at once: a lost message, a second delivery, a wrong order, or a wrong answer.
func runTwice(ctx context.Context, s settings, out io.Writer, run runFunc) error {
	first := run(ctx, s, out)
	if first == nil || !onlyLate(first) || ctx.Err() != nil {
		return first
	}
	printf(out, "\nthe run broke only time limits, so it is repeated once:\n%v\n\n", first)
	s.keep = true
	if second := run(ctx, s, out); second != nil {
		return errors.Join(fmt.Errorf("the first run: %w", first), fmt.Errorf("the second run: %w", second))
	}
	line := fmt.Sprintf("chaos: seed %d: %s", s.seed, strings.ReplaceAll(first.Error(), "\n", "; "))
	printf(out, "\nUNSTEADY %s\n", line)
	return listUnsteady(line)
}

// onlyLate reports whether an error consists only of broken time limits.
func onlyLate(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the switch examines each error of the tree separately
	case *brokenError:
		return !slices.ContainsFunc(e.violations, func(v check.Violation) bool { return !v.Late() })
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !onlyLate(one) })
	case interface{ Unwrap() error }:
		return onlyLate(e.Unwrap())
	default:
		return err == world.ErrLate //nolint:errorlint // see above
	}
}

// listUnsteady appends a line to the file in BELFRY_UNSTEADY. It does nothing if the variable is empty.
func listUnsteady(line string) error {
	name := os.Getenv(unsteadyFile)
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("listing an unsteady run: %w", err)
	}
	_, err = fmt.Fprintln(file, line)
	return errors.Join(err, file.Close())
}
