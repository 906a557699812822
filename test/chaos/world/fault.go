package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Holding times of a fault: from below what anyone notices to above every
// timeout of the servers.
const (
	shortestHold = 200 * time.Millisecond
	longestHold  = 4 * time.Second
)

// mixed is the name of a fault that is several at the same time.
const mixed = "mix"

// Fault breaks something, keeps it broken for a while, and mends it before it
// returns. It also returns with everything mended when ctx ends. The text says
// what it did.
type Fault struct {
	Name string
	run  func(ctx context.Context, w *World, choose *rand.Rand) (string, error)
}

// Faults are all faults, by name. The last one runs several of the others.
func Faults() []Fault {
	faults := slices.Concat(processFaults(), networkFaults(), databaseFaults(), []Fault{clockFault()})
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return append(faults, mix(faults))
}

// Pick returns the faults with these names, or all of them for none.
func Pick(names []string) ([]Fault, error) {
	all := Faults()
	if len(names) == 0 {
		return all, nil
	}
	var picked, single []Fault
	for _, name := range names {
		at := slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })
		switch {
		case at < 0:
			var known []string
			for _, f := range all {
				known = append(known, f.Name)
			}
			return nil, fmt.Errorf("there is no fault %q: there are %s", name, strings.Join(known, ", "))
		case name != mixed:
			single = append(single, all[at])
		}
		picked = append(picked, all[at])
	}
	// A mix is made of what was asked for, if that can be mixed.
	if at := slices.IndexFunc(picked, func(f Fault) bool { return f.Name == mixed }); at >= 0 && len(single) > 1 {
		picked[at] = mix(single)
	}
	return picked, nil
}

// Break runs a fault from begin to end.
func (w *World) Break(ctx context.Context, f Fault, choose *rand.Rand) (string, error) {
	what, err := f.run(ctx, w, choose)
	if err != nil {
		return what, fmt.Errorf("%s: %w", f.Name, err)
	}
	return what, nil
}

// mix runs two or three different faults, which begin at different times.
func mix(of []Fault) Fault {
	return Fault{mixed, func(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
		type result struct {
			what string
			err  error
		}
		count := min(len(of), 2+choose.IntN(2))
		results := make(chan result, count)
		for _, at := range choose.Perm(len(of))[:count] {
			f, delay := of[at], time.Duration(choose.Int64N(int64(time.Second)))
			// Each has choices of its own, whatever the others do meanwhile.
			own := rand.New(rand.NewPCG(choose.Uint64(), choose.Uint64()))
			go func() {
				if !Pause(ctx, delay) {
					results <- result{f.Name + ": not begun", nil}
					return
				}
				what, err := w.Break(ctx, f, own)
				results <- result{f.Name + ": " + what, err}
			}()
		}
		var texts []string
		var errs []error
		for range count {
			r := <-results
			texts, errs = append(texts, r.what), append(errs, r.err)
		}
		slices.Sort(texts)
		return strings.Join(texts, "; "), errors.Join(errs...)
	}}
}

// Pause waits and returns true, or false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// between chooses a time from low to high.
func between(choose *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(choose.Int64N(int64(high-low)))
}

func hold(choose *rand.Rand) time.Duration {
	return between(choose, shortestHold, longestHold).Round(time.Millisecond)
}

func (w *World) anyServer(choose *rand.Rand) *server { return w.servers[choose.IntN(len(w.servers))] }
