package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pick returns the faults with these names, or all faults if there are no names. If a named fault is not possible on
// this machine, Pick returns an error, unless the name ends with a question mark. Otherwise Pick leaves out a fault
// that is not possible, also from a mix, and leftOut has the reason. Faults of Losing and
// StepsDatabaseClock must be named. With a pooler,
// there is only one Postgres.
func Pick(ctx context.Context, names []string, pooler string) (picked []Fault, leftOut []string, err error) {
	if pooler != "" && pooler != "session" && pooler != "transaction" {
		return nil, nil, fmt.Errorf("the mode of the pooler is %q: it must be session or transaction", pooler)
	}
	faults := Faults()
	for _, f := range append(Losing(), databaseClockFault()) {
		if slices.Contains(names, f.Name) {
			faults = append(faults, f)
		}
	}
	for i := range faults {
		if pooler != "" && slices.Contains(replicating, faults[i].Name) {
			faults[i].obstacle = func(context.Context) error { return errors.New("the pooler connects to only one Postgres") }
		}
	}
	return pick(ctx, faults, names)
}

func pick(ctx context.Context, faults []Fault, names []string) (picked []Fault, leftOut []string, err error) {
	var possible []Fault
	obstacles := map[string]error{}
	for _, f := range faults {
		switch {
		case f.Name == mixed:
			possible = append(possible, mix(possible))
		case f.obstacle == nil:
			possible = append(possible, f)
		default:
			if obstacles[f.Name] = f.obstacle(ctx); obstacles[f.Name] == nil {
				possible = append(possible, f)
			}
		}
	}
	everything := len(names) == 0
	if everything {
		for _, f := range faults {
			names = append(names, f.Name+"?")
		}
	}
	var single []Fault
	for _, name := range names {
		name, lenient := strings.CutSuffix(name, "?")
		at := slices.IndexFunc(possible, func(f Fault) bool { return f.Name == name })
		switch obstacle, ok := obstacles[name]; {
		case at < 0 && !ok:
			return nil, nil, fmt.Errorf("there is no fault %q: choose from %s", name, known(faults))
		case at < 0 && !lenient:
			return nil, nil, fmt.Errorf("%s is not possible on this machine: leave it out, or write %s? to use it only where it is possible: %w", name, name, obstacle)
		case at < 0:
			leftOut = append(leftOut, fmt.Sprintf("%s is left out: %v", name, obstacle))
			continue
		case name != mixed:
			single = append(single, possible[at])
		}
		picked = append(picked, possible[at])
	}
	at := slices.IndexFunc(picked, func(f Fault) bool { return f.Name == mixed })
	switch {
	case at < 0:
	case len(single) > 1: // a mix of the named faults if there are several
		picked[at] = mix(single)
	case len(leftOut) == 0: // a mix of all faults; the faults left out are not reported yet
		for name, obstacle := range obstacles {
			if obstacle != nil {
				leftOut = append(leftOut, fmt.Sprintf("%s is left out of the mix: %v", name, obstacle))
			}
		}
	}
	if len(picked) == 0 {
		return nil, nil, fmt.Errorf("no fault is left: %s", strings.Join(leftOut, "; "))
	}
	return picked, leftOut, nil
}

func known(faults []Fault) string {
	var names []string
	for _, f := range faults {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
