package limitcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Change is a value of the concurrency. It is in force from an instant between Begin and End on. The first value has both zero.
type Change struct {
	Begin, End  time.Time
	Concurrency int
}

// allowed returns the greatest value that may have been in force between two instants.
func allowed(changes []Change, from, to time.Time) (most int) {
	for i, c := range changes {
		replaced := i+1 < len(changes) && changes[i+1].End.Before(from)
		if !replaced && !c.Begin.After(to) {
			most = max(most, c.Concurrency)
		}
	}
	return most
}

// Concurrency returns the breaches of the concurrency. With one change, it also compares the recorded periods.
func Concurrency(leases []Lease, changes ...Change) (breaches []string) {
	for _, l := range leases {
		if most := allowed(changes, l.Began, l.From); l.Live > most {
			breaches = append(breaches, fmt.Sprintf("concurrency: the lease %s of partition %d is the live lease number %d at %s, and %d are allowed",
				l.ID, l.Partition, l.Live, l.From.Format(time.StampMicro), most))
		}
	}
	if len(changes) == 1 {
		breaches = append(breaches, overlaps(leases, changes[0].Concurrency)...)
	}
	return breaches
}

// overlaps returns each lease that begins while most other leases are live.
func overlaps(leases []Lease, most int) (breaches []string) {
	begins := slices.Clone(leases)
	slices.SortStableFunc(begins, func(a, b Lease) int { return a.From.Compare(b.From) })
	var live []Lease
	for _, l := range begins {
		live = slices.DeleteFunc(live, func(other Lease) bool { return !other.Until.After(l.From) })
		live = append(live, l)
		if len(live) > most {
			breaches = append(breaches, fmt.Sprintf("concurrency: the lease %s of partition %d overlaps %d leases from %s on, and %d leases are allowed",
				l.ID, l.Partition, len(live)-1, l.From.Format(time.StampMicro), most))
		}
	}
	return breaches
}

// Bucket is a rate: Messages in Per, and Burst at once after a pause.
type Bucket struct {
	Messages, Burst int
	Per             time.Duration
}

// in returns the greatest number of messages in a window.
func (b Bucket) in(window time.Duration) float64 {
	return float64(b.Burst) + float64(b.Messages)*float64(window)/float64(b.Per)
}

// Rate returns the breach of the rate that exceeds it the most, or nothing.
func Rate(leases []Lease, b Bucket) (breaches []string) {
	byBegin := slices.SortedFunc(slices.Values(leases), func(x, y Lease) int { return cmp.Compare(y.Began.UnixNano(), x.Began.UnixNano()) })
	byFrom := slices.SortedFunc(slices.Values(leases), func(x, y Lease) int { return x.From.Compare(y.From) })
	worst, excess := "", 0.5 // half a message for the rounding of the clocks to microseconds
	for _, first := range byBegin {
		total := 0
		for _, l := range byFrom[firstAfter(byFrom, first.Began):] {
			if l.Began.Before(first.Began) {
				continue
			}
			total += l.Messages
			window := l.From.Sub(first.Began)
			if more := float64(total) - b.in(window); more > excess {
				excess = more
				worst = fmt.Sprintf("rate: %d messages from %s on in %s, and %.1f are allowed", total, first.Began.Format(time.StampMicro), window, b.in(window))
			}
		}
	}
	if worst == "" {
		return nil
	}
	return []string{worst}
}

// firstAfter returns the index of the first lease in the order of From whose From is not before an instant.
func firstAfter(byFrom []Lease, at time.Time) int {
	i, _ := slices.BinarySearchFunc(byFrom, at, func(l Lease, at time.Time) int { return l.From.Compare(at) })
	return i
}

// Windows returns the messages delivered in each full window between two instants.
func Windows(leases []Lease, from, to time.Time, window time.Duration) (counts []int) {
	counts = make([]int, int(to.Sub(from)/window))
	for _, l := range leases {
		if at := l.From.Sub(from); at >= 0 && int(at/window) < len(counts) {
			counts[at/window] += l.Messages
		}
	}
	return counts
}
