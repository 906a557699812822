package world

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	stepClock = "step-clock"
	// childClock is the offset of a server's wall clock at its start.
	childClock = "BELFRY_CHAOS_CHILD_CLOCK"
	// clockPatience is how long a server may take to report its time.
	clockPatience = 10 * time.Second
	// program is the main package that servers run. Its main calls Child.
	program = "github.com/belfry-mq/belfry/test/chaos"
)

// steppable is implemented by time.UTC in a program built by buildSteppable.
type steppable interface{ StepWallClock(offset time.Duration) }

// clockEdits change the source of package time. Each old text must occur exactly once. The monotonic clock does not
// change.
var clockEdits = []struct{ old, replacement string }{
	{"\nimport (\n", "\nimport (\n\t\"sync/atomic\"\n"},
	{"\tsec, nsec, mono := runtimeNow()\n", "\tsec, nsec, mono := runtimeNow()\n\tsec, nsec = stepped(sec, nsec)\n"},
}

// clockAddition is appended to that source.
const clockAddition = `
var wallOffset atomic.Int64

// StepWallClock makes Now differ from the clock of the machine.
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

// clockFault steps the wall clock of one server. In one of three cases the clock stays stepped, until the next step of
// that server or the end of the run. The network, Postgres and the other servers keep the right time.
func clockFault() Fault {
	return Fault{Name: stepClock, run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		// Jitter makes small steps. A machine that was suspended or set by hand makes large ones.
		limits := []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute, 2 * time.Hour}
		limit := limits[choose.IntN(len(limits))]
		s, offset, d, stays := w.anyServer(choose), between(choose, -limit, limit).Round(time.Millisecond), hold(choose), choose.IntN(3) == 0
		if err := s.setClock(offset); err != nil {
			return s.name, err
		}
		Pause(ctx, d)
		if stays {
			return fmt.Sprintf("%s, by %s for good", s.name, offset), nil
		}
		return fmt.Sprintf("%s, by %s for %s", s.name, offset, d), s.setClock(0)
	}}
}

// setClock sets the offset of the server's wall clock, also for later starts. It fails if the server reports another
// time. It waits for the fault that stops the process.
func (s *server) setClock(offset time.Duration) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	s.offset = offset
	earliest := time.Now().Add(offset)
	if _, err := fmt.Fprintln(s.stdin, offset); err != nil {
		return fmt.Errorf("stepping the clock of %s: %w", s.name, err)
	}
	timer := time.NewTimer(clockPatience)
	defer timer.Stop()
	select {
	case line := <-s.lines:
		reported, err := time.Parse(time.RFC3339Nano, line)
		if err != nil {
			return fmt.Errorf("reading the clock of %s: %w", s.name, err)
		}
		if latest := time.Now().Add(offset); reported.Before(earliest.Round(0)) || reported.After(latest) {
			return fmt.Errorf("the clock of %s was stepped by %s and is at %s, not between %s and %s", s.name, offset, reported, earliest, latest)
		}
		return nil
	case <-s.done:
		return fmt.Errorf("%s ended when its clock was stepped, see its log: %w", s.name, s.err)
	case <-timer.C:
		return fmt.Errorf("%s did not report its time within %s", s.name, clockPatience)
	}
}

// serveClock applies the offsets that setClock writes, and answers with the time. It returns nil at the end of orders.
func serveClock(orders io.Reader, answers io.Writer) error {
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		if err := step(lines.Text()); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(answers, time.Now().Format(time.RFC3339Nano)); err != nil {
			return fmt.Errorf("reporting the time: %w", err)
		}
	}
	return lines.Err()
}

// step sets the offset of the wall clock of this process.
func step(offset string) error {
	d, err := time.ParseDuration(offset)
	if err != nil {
		return fmt.Errorf("stepping the clock: %w", err)
	}
	clock, ok := any(time.UTC).(steppable)
	if !ok {
		return errors.New("stepping the clock: this program was not built for that")
	}
	clock.StepWallClock(d)
	return nil
}

// buildSteppable builds, in folder dir, a program whose wall clock can be stepped, and returns its path. It needs the
// go tool and the source of the module around the working directory. It does not change the product.
func buildSteppable(ctx context.Context, dir string) (string, error) {
	packageDir, err := goTool(ctx, "list", "-f", "{{.Dir}}", "time")
	if err != nil {
		return "", err
	}
	original := filepath.Join(packageDir, "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("reading the source of package time: %w", err)
	}
	changed, err := makeSteppable(string(source))
	if err != nil {
		return "", fmt.Errorf("changing %s: %w", original, err)
	}
	replacement, overlay, built := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "server")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err = errors.Join(err, os.WriteFile(replacement, []byte(changed), 0o644), os.WriteFile(overlay, list, 0o644)); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	_, err = goTool(ctx, "build", "-buildvcs=false", "-overlay", overlay, "-o", built, program)
	return built, err
}

// makeSteppable changes the source of package time.
func makeSteppable(source string) (string, error) {
	for _, edit := range clockEdits {
		if found := strings.Count(source, edit.old); found != 1 {
			return "", fmt.Errorf("the text %q is there %d times and not once: another version of Go needs another edit", edit.old, found)
		}
		source = strings.Replace(source, edit.old, edit.replacement, 1)
	}
	return source + clockAddition, nil
}

func goTool(ctx context.Context, args ...string) (string, error) {
	var complaints strings.Builder
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = &complaints
	cmd.Env = append(os.Environ(), "GOGC=400") // the compiler is a sixth faster
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return strings.TrimSpace(string(out)), nil
}
