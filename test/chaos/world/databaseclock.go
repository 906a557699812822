package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// StepsDatabaseClock is a fault that steps the clock of Postgres. It runs only if the user names it, because the history of the
// common workload is on the clock of the machine.
const StepsDatabaseClock = "step-database-clock"

// farthestStep is the largest difference between the clock of Postgres and the clock of the machine.
const farthestStep = 5 * time.Second

// databaseClockFault steps the clock of Postgres forward or back, several times. In one of three cases the last offset remains
// until the next fault.
func databaseClockFault() Fault {
	return Fault{Name: StepsDatabaseClock, run: func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		text := "stepped to"
		for range 1 + choose.IntN(3) {
			offset := between(choose, -farthestStep, farthestStep).Round(time.Millisecond)
			if err := w.stepDatabase(ctx, offset); err != nil {
				return "", err
			}
			text += fmt.Sprintf(" %s", offset)
			if !Pause(ctx, hold(choose)) {
				break
			}
		}
		if choose.IntN(3) == 0 {
			return text + " for good", nil
		}
		return text, w.stepDatabase(context.WithoutCancel(ctx), 0)
	}}
}

// stepDatabase sets the offset of the clock of Postgres. It returns an error if Postgres then reports another time.
func (w *World) stepDatabase(ctx context.Context, offset time.Duration) error {
	if err := w.databaseClock.Step(offset); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, adminPatience)
	defer cancel()
	earliest := time.Now().Add(offset).Truncate(time.Microsecond)
	var reported time.Time
	if err := w.admin.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&reported); err != nil {
		return w.ignoreUnavailable(err)
	}
	if latest := time.Now().Add(offset); reported.Before(earliest) || reported.After(latest) {
		return fmt.Errorf("the clock of Postgres was stepped by %s: it shows %s instead of a time between %s and %s", offset, reported, earliest, latest)
	}
	return nil
}
