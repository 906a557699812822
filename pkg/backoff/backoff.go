// Package backoff computes how long to wait before looking again after a number
// of looks that found nothing: a constant delay up to a threshold, then
// exponential growth up to a cap, with jitter so that many who wait do not move
// in step.
//
// It is pure: randomness is an argument, and nothing here reads a clock.
// Importable by every package.
package backoff

import (
	"math"
	"time"
)

// Policy is the shape of a backoff.
type Policy struct {
	// Initial is the delay after each of the first Threshold empty looks.
	Initial time.Duration
	// Max caps the delay, jitter included.
	Max time.Duration
	// Threshold is how many empty looks happen before the delay grows.
	Threshold int
	// Multiplier is what the delay grows by with each further empty look; 1
	// keeps it constant.
	Multiplier float64
}

// jitter is the share of a delay that randomness may take away.
const jitter = 0.1

// Delay returns the delay after the given number of empty looks (from 1).
// random is in [0, 1): it shortens the delay by up to a tenth, never
// lengthening it, so that Max holds.
func (p Policy) Delay(empties int, random float64) time.Duration {
	grown := float64(p.Initial) * math.Pow(p.Multiplier, float64(max(0, empties-p.Threshold)))
	delay := math.Min(grown, float64(p.Max))
	return time.Duration(delay * (1 - jitter*random))
}
