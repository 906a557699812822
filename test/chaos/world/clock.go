package world

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/clock"
)

const (
	stepClock = "step-clock"
	// childClock is the environment variable with the offset of a server's wall clock at its start.
	childClock = "BELFRY_CHAOS_CHILD_CLOCK"
	// clockPatience is the maximum time for a server to report its time.
	clockPatience = 10 * time.Second
)

// clockFault steps the wall clock of one server. In one of three cases the offset remains until the next step of that
// server or the end of the run. The network, Postgres and the other servers keep the correct time.
func clockFault() Fault {
	return Fault{Name: stepClock, run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		// Jitter causes small steps. A suspended machine, or a person who sets the clock, causes large steps.
		limits := []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute, 2 * time.Hour}
		limit := limits[choose.IntN(len(limits))]
		s, offset, d, stays := w.anyServer(choose), between(choose, -limit, limit).Round(time.Millisecond), hold(choose), choose.IntN(3) == 0
		if err := s.setClock(offset); err != nil {
			return s.name, err
		}
		Pause(ctx, d)
		if stays {
			return fmt.Sprintf("%s, stepped by %s for good", s.name, offset), nil
		}
		return fmt.Sprintf("%s, stepped by %s for %s", s.name, offset, d), s.setClock(0)
	}}
}

// setClock sets the offset of the server's wall clock, also for later starts. It returns an error if the server
// reports a wrong time. It waits until a fault that stops the process has ended.
func (s *server) setClock(offset time.Duration) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	s.offset = offset
	earliest := time.Now().Add(offset)
	if err := s.process.WriteLine(offset.String()); err != nil {
		return fmt.Errorf("stepping the clock of %s: %w", s.name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clockPatience)
	defer cancel()
	line, err := s.process.ReadLine(ctx)
	if err != nil {
		return fmt.Errorf("%s did not report its time after a step of its clock, see the log of the server: %w", s.name, err)
	}
	reported, err := time.Parse(time.RFC3339Nano, line)
	if err != nil {
		return fmt.Errorf("reading the clock of %s: %w", s.name, err)
	}
	if latest := time.Now().Add(offset); reported.Before(earliest.Round(0)) || reported.After(latest) {
		return fmt.Errorf("the clock of %s was stepped by %s: it shows %s instead of a time between %s and %s", s.name, offset, reported, earliest, latest)
	}
	return nil
}

// serveClock applies the offsets that setClock writes, and answers each with the time. It returns nil at the end of
// orders.
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
	return clock.Step(d)
}
