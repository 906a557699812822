package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pick returns the faults with these names, or all of them for none. A fault that
// cannot be had on this machine is an error when it was named, unless a question
// mark follows its name. Otherwise it is left out, of a mix too, and leftOut says
// which one and why. Those that are Losing must be named. A pooler, if any, leads to one
// Postgres and to no other.
func Pick(ctx context.Context, names []string, pooler string) (picked []Fault, leftOut []string, err error) {
	if pooler != "" && pooler != "session" && pooler != "transaction" {
		return nil, nil, fmt.Errorf("the mode of the pooler is session or transaction, not %q", pooler)
	}
	faults := Faults()
	for _, f := range Losing() {
		if slices.Contains(names, f.Name) {
			faults = append(faults, f)
		}
	}
	for i := range faults {
		if pooler != "" && (faults[i].Name == failsOver || faults[i].Name == loses) {
			faults[i].obstacle = func(context.Context) error { return errors.New("the pooler leads to one Postgres") }
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
			return nil, nil, fmt.Errorf("there is no fault %q: there are %s", name, known(faults))
		case at < 0 && !lenient:
			return nil, nil, fmt.Errorf("%s cannot be had here: leave it out, or name it %s? to have it where it can: %w", name, name, obstacle)
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
	case len(single) > 1: // a mix is made of what was asked for, if that can be mixed
		picked[at] = mix(single)
	case len(leftOut) == 0: // it is made of all, and nobody has been told yet what it lacks
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
