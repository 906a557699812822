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
	// obstacle says why it cannot be had on this machine; nil: it can on any.
	obstacle func(ctx context.Context) error
	// of are what a mix is made of.
	of []Fault
}

// Result says what a fault did.
type Result struct {
	What string
	// Excuse is how long a message that is ready may wait because of it, at most.
	Excuse time.Duration
	// Silence is how much longer it may wait for a consumer in SQL.
	Silence time.Duration
}

// Faults are all faults, by name. The last one runs several of the others.
func Faults() []Fault {
	faults := slices.Concat(processFaults(), networkFaults(), databaseFaults(), []Fault{clockFault()})
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return append(faults, mix(faults))
}

func mix(of []Fault) Fault { return Fault{Name: mixed, of: of} }

// wants says whether a fault is among faults or what they are made of.
func wants(faults []Fault, name string) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.Name == name || wants(f.of, name) })
}

// Break runs a fault from begin to end.
func (w *World) Break(ctx context.Context, f Fault, choose *rand.Rand) (Result, error) {
	if len(f.of) > 0 {
		return w.breakSeveral(ctx, f.of, choose)
	}
	what, err := f.run(ctx, w, choose)
	if err != nil {
		err = fmt.Errorf("%s: %w", f.Name, err)
	}
	return Result{what, excuses[f.Name], silences[f.Name]}, err
}

// breakSeveral runs two or three different faults, which begin at different times.
func (w *World) breakSeveral(ctx context.Context, of []Fault, choose *rand.Rand) (Result, error) {
	type outcome struct {
		Result
		err error
	}
	count := min(len(of), 2+choose.IntN(2))
	outcomes := make(chan outcome, count)
	for _, at := range choose.Perm(len(of))[:count] {
		f, delay := of[at], time.Duration(choose.Int64N(int64(time.Second)))
		// Each has choices of its own, whatever the others do meanwhile.
		own := rand.New(rand.NewPCG(choose.Uint64(), choose.Uint64()))
		go func() {
			if !Pause(ctx, delay) {
				outcomes <- outcome{Result{What: f.Name + ": not begun"}, nil}
				return
			}
			result, err := w.Break(ctx, f, own)
			result.What = f.Name + ": " + result.What
			outcomes <- outcome{result, err}
		}()
	}
	var texts []string
	var errs []error
	var excuse, silence time.Duration
	for range count {
		o := <-outcomes
		texts, errs = append(texts, o.What), append(errs, o.err)
		excuse, silence = together(excuse, o.Excuse), together(silence, o.Silence)
	}
	slices.Sort(texts)
	return Result{strings.Join(texts, "; "), excuse, silence}, errors.Join(errs...)
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
