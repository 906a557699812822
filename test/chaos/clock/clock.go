// Package clock builds a program whose wall clock can be stepped, with an overlay of package time. It does not change
// the code of the product.
package clock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is the main package of the program. The servers of a chaos run use it.
const program = "github.com/belfry-mq/belfry/test/chaos"

// steppable is an interface that time.UTC implements in a program built by Build.
type steppable interface{ StepWallClock(offset time.Duration) }

// Steps reports whether the clock of this program can be stepped.
func Steps() bool {
	_, ok := any(time.UTC).(steppable)
	return ok
}

// Step sets the offset of the wall clock of this program. It returns an error if Build did not build this program.
func Step(offset time.Duration) error {
	clock, ok := any(time.UTC).(steppable)
	if !ok {
		return errors.New("stepping the clock: this program was not built by clock.Build")
	}
	clock.StepWallClock(offset)
	return nil
}

// edits are the changes of the source of package time. Each old text must occur exactly once. The monotonic clock
// stays unchanged.
var edits = []struct{ old, replacement string }{
	{"\nimport (\n", "\nimport (\n\t\"sync/atomic\"\n"},
	{"\tsec, nsec, mono := runtimeNow()\n", "\tsec, nsec, mono := runtimeNow()\n\tsec, nsec = stepped(sec, nsec)\n"},
}

// addition is appended to the source of package time.
const addition = `
var wallOffset atomic.Int64

// StepWallClock sets the difference between Now and the clock of the machine.
func (*Location) StepWallClock(offset Duration) { wallOffset.Store(int64(offset)) }

func stepped(sec int64, nsec int32) (int64, int32) {
	nanos := int64(nsec) + wallOffset.Load()
	sec += nanos / 1e9
	if nanos %= 1e9; nanos < 0 {
		sec, nanos = sec-1, nanos+1e9
	}
	return sec, int32(nanos)
}
`

// Build builds the chaos test as the file built. It needs the go tool, and a working directory in the module. The
// folder dir receives the changed source of package time.
func Build(ctx context.Context, dir, built string) error {
	packageDir, err := goTool(ctx, "list", "-f", "{{.Dir}}", "time")
	if err != nil {
		return err
	}
	original := filepath.Join(packageDir, "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("reading the source of package time: %w", err)
	}
	changed, err := makeSteppable(string(source))
	if err != nil {
		return fmt.Errorf("changing %s: %w", original, err)
	}
	replacement, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err = errors.Join(err, os.WriteFile(replacement, []byte(changed), 0o644), os.WriteFile(overlay, list, 0o644)); err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	_, err = goTool(ctx, "build", "-buildvcs=false", "-overlay", overlay, "-o", built, program)
	return err
}

// makeSteppable returns the changed source of package time.
func makeSteppable(source string) (string, error) {
	for _, edit := range edits {
		if found := strings.Count(source, edit.old); found != 1 {
			return "", fmt.Errorf("the text %q occurs %d times instead of once: adapt the edits to this version of Go", edit.old, found)
		}
		source = strings.Replace(source, edit.old, edit.replacement, 1)
	}
	return source + addition, nil
}

func goTool(ctx context.Context, args ...string) (string, error) {
	var complaints strings.Builder
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = &complaints
	cmd.Env = append(os.Environ(), "GOGC=400") // makes the compiler about 17 % faster
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return strings.TrimSpace(string(out)), nil
}
