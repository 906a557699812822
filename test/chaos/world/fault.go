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

// These constants limit the random duration of a fault. It may be unnoticeable, or longer than every timeout of the
// servers.
const (
	shortestHold = 200 * time.Millisecond
	longestHold  = 4 * time.Second
)

// mixed is the name of the fault that injects several faults at the same time.
const mixed = "mix"

// Fault breaks something for a while. The function run repairs the damage before it returns, even if ctx ends. Its
// result describes the injected fault.
type Fault struct {
	Name string
	run  func(ctx context.Context, w *World, choose *rand.Rand) (string, error)
	// obstacle returns why the fault is not possible on this machine. A nil obstacle means that the fault is always
	// possible.
	obstacle func(ctx context.Context) error
	// of are the parts of a mix.
	of []Fault
}

// Result describes an injected fault.
type Result struct {
	What string
	// Excuse is the maximum wait of a ready message because of the fault.
	Excuse time.Duration
	// SQLAllowance is the additional maximum wait of a consumer in SQL.
	SQLAllowance time.Duration
}

// Faults returns all faults, sorted by name. The last fault is the mix.
func Faults() []Fault {
	faults := slices.Concat(processFaults(), networkFaults(), slowClientFaults(), databaseFaults(), []Fault{clockFault()})
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return append(faults, mix(faults))
}

func mix(of []Fault) Fault { return Fault{Name: mixed, of: of} }

// wants reports whether a fault is among faults or their parts.
func wants(faults []Fault, name string) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.Name == name || wants(f.of, name) })
}

// Inject runs a fault and returns after its repair.
func (w *World) Inject(ctx context.Context, f Fault, choose *rand.Rand) (Result, error) {
	if len(f.of) > 0 {
		return w.injectSeveral(ctx, f.of, choose)
	}
	what, err := f.run(ctx, w, choose)
	if err != nil {
		err = fmt.Errorf("%s: %w", f.Name, err)
	}
	return Result{what, excuses[f.Name], sqlAllowances[f.Name]}, err
}

// injectSeveral runs two or three different faults. They begin at different times.
func (w *World) injectSeveral(ctx context.Context, of []Fault, choose *rand.Rand) (Result, error) {
	type outcome struct {
		Result
		err error
	}
	count := min(len(of), 2+choose.IntN(2))
	outcomes := make(chan outcome, count)
	for _, at := range choose.Perm(len(of))[:count] {
		f, delay := of[at], time.Duration(choose.Int64N(int64(time.Second)))
		// Each fault has a separate random source, so that its choices do not depend on the timing of the other
		// faults.
		own := rand.New(rand.NewPCG(choose.Uint64(), choose.Uint64()))
		go func() {
			if !Pause(ctx, delay) {
				outcomes <- outcome{Result{What: f.Name + ": not begun"}, nil}
				return
			}
			result, err := w.Inject(ctx, f, own)
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
		excuse, silence = addExcuses(excuse, o.Excuse), addExcuses(silence, o.SQLAllowance)
	}
	slices.Sort(texts)
	return Result{strings.Join(texts, "; "), excuse, silence}, errors.Join(errs...)
}

// Pause waits for d and returns true. If ctx ends first, it returns false.
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

// between returns a random duration from low to high.
func between(choose *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(choose.Int64N(int64(high-low)))
}

func hold(choose *rand.Rand) time.Duration {
	return between(choose, shortestHold, longestHold).Round(time.Millisecond)
}

func (w *World) anyServer(choose *rand.Rand) *server { return w.servers[choose.IntN(len(w.servers))] }
