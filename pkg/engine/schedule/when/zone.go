package when

import "time"

// reach is more than the largest difference between two clocks. The largest offsets from UTC, of local mean times, are 16 h.
const reach = 48 * time.Hour

// period is a time in which the offset of a zone does not change. start or end is zero if the period has no start or end.
// A wall time is a time that the clock of the zone shows, written in UTC.
type period struct {
	start, end time.Time
	offset     time.Duration
}

// periodAt returns the period of an instant.
func periodAt(at time.Time, zone *time.Location) period {
	at = at.In(zone)
	_, seconds := at.Zone()
	start, end := at.ZoneBounds()
	return period{start.UTC(), end.UTC(), time.Duration(seconds) * time.Second}
}

// wall returns the time that the clock shows at an instant of the period.
func (p period) wall(at time.Time) time.Time { return at.Add(p.offset).UTC() }

// instant returns the instant at which the clock shows a time. The instant may lie outside of the period.
func (p period) instant(wall time.Time) time.Time { return wall.Add(-p.offset).UTC() }

// unseen returns the first wall time that the clock has neither shown nor passed up to an instant. If the clock was moved
// back shortly before, this is the wall time at which it was moved back.
func unseen(at time.Time, zone *time.Location) time.Time {
	p := periodAt(at, zone)
	first := p.wall(at).Truncate(time.Second).Add(time.Second)
	for oldest := at.Add(-reach); !p.start.IsZero() && p.start.After(oldest); {
		change := p.start
		p = periodAt(change.Add(-time.Second), zone)
		if moved := p.wall(change); moved.After(first) {
			first = moved
		}
	}
	return first
}

// reached returns the first instant at which the clock shows a wall time, or a later time because it has skipped this one.
func reached(wall time.Time, zone *time.Location) time.Time {
	p := periodAt(wall.Add(-reach), zone)
	for !p.end.IsZero() && !p.instant(wall).Before(p.end) {
		p = periodAt(p.end, zone)
	}
	if at := p.instant(wall); at.After(p.start) {
		return at
	}
	return p.start
}
