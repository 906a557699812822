package backoff

import "time"

// Pace limits how often something happens: Burst times at once, and then once in each Interval. It is
// not safe for concurrent use.
type Pace struct {
	Interval time.Duration
	Burst    int

	// full is when Burst times are possible again.
	full time.Time
}

// Next returns the earliest instant at which it may happen once more, which is not before now. It
// counts it as done.
func (p *Pace) Next(now time.Time) time.Time {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(p.Interval)
	if at := p.full.Add(-time.Duration(p.Burst) * p.Interval); at.After(now) {
		return at
	}
	return now
}

// Refund takes back one that Next counted.
func (p *Pace) Refund() { p.full = p.full.Add(-p.Interval) }
