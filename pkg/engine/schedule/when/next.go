package when

import "time"

// Next returns the first instant after the given one. It returns false if no instant follows. The instant is in UTC.
func (r *Rule) Next(after time.Time) (time.Time, bool) {
	if earliest := r.earliest(); after.Before(earliest) {
		after = earliest
	}
	next, ok := r.unbounded(after.UTC())
	if !ok || next.Year() > lastYear || !r.spec.Ends.IsZero() && !next.Before(r.spec.Ends) {
		return time.Time{}, false
	}
	return next, true
}

// earliest returns the last instant before Starts. Without Starts, it returns the zero time.
func (r *Rule) earliest() time.Time {
	if r.spec.Starts.IsZero() {
		return time.Time{}
	}
	return r.spec.Starts.Add(-time.Microsecond)
}

// unbounded is Next without Starts and Ends.
func (r *Rule) unbounded(after time.Time) (time.Time, bool) {
	switch {
	case after.Year() > lastYear:
		return time.Time{}, false
	case r.cron == nil && r.spec.Every == 0:
		return r.spec.At, r.spec.At.After(after)
	case r.cron == nil:
		return r.nextEvery(after), true
	case r.cron.elapsed:
		return r.nextElapsed(after)
	default:
		return r.nextFixed(after)
	}
}

// nextEvery counts in microseconds, because a time.Duration reaches only 292 years.
func (r *Rule) nextEvery(after time.Time) time.Time {
	base, every := int64(0), r.spec.Every.Microseconds()
	if !r.spec.Starts.IsZero() {
		base = r.spec.Starts.UnixMicro()
	}
	passed := after.UnixMicro() - base
	count := passed / every
	if passed >= 0 || passed%every == 0 {
		count++
	}
	return time.UnixMicro(base + count*every).UTC()
}

// nextElapsed returns the first instant after the given one at which the clock of the zone shows a matching time.
func (r *Rule) nextElapsed(after time.Time) (time.Time, bool) {
	for from := after.Truncate(time.Second).Add(time.Second); ; {
		p := periodAt(from, r.zone)
		wall, ok := r.cron.next(p.wall(from))
		if !ok {
			return time.Time{}, false
		}
		if at := p.instant(wall); p.end.IsZero() || at.Before(p.end) {
			return at, true
		}
		from = p.end
	}
}

// nextFixed returns the first instant after the given one at which the clock of the zone shows, or has passed, a matching
// time that it has not shown or passed before.
func (r *Rule) nextFixed(after time.Time) (time.Time, bool) {
	wall, ok := r.cron.next(unseen(after, r.zone))
	if !ok {
		return time.Time{}, false
	}
	return reached(wall, r.zone), true
}
