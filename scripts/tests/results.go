package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// mostMessage is the maximum length of the message of an unsteady test in bytes.
const mostMessage = 600

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// test is a test function with its subtests.
type test struct {
	pkg, name    string
	longest      time.Duration // duration of its longest run
	failed, done bool          // failed: a run failed; done: the last run passed
	message      []string      // output of the first failed run
}

// results has the tests of a run, by package and name.
type results struct {
	tests map[[2]string]*test
	// broken are the packages that failed although none of their tests failed: a goroutine was left, or TestMain
	// failed. Gotestsum repeats such a package without its tests, so the result of the repetition does not count.
	broken []string
}

// read returns the results from the events of a run.
func read(from io.Reader) (*results, error) {
	r := &results{tests: map[[2]string]*test{}}
	lines := json.NewDecoder(from)
	for {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the results: %w", err)
		}
		switch {
		case e.Test != "":
			r.apply(e)
		case e.Action == "fail" && !r.explained(e.Package):
			r.broken = append(r.broken, e.Package)
		}
	}
}

// explained reports whether a failed test explains the failure of a package.
func (r *results) explained(pkg string) bool {
	for t := range maps.Values(r.tests) {
		if t.pkg == pkg && t.failed {
			return true
		}
	}
	return false
}

func (r *results) apply(e event) {
	name, _, sub := strings.Cut(e.Test, "/")
	t := r.tests[[2]string{e.Package, name}]
	if t == nil {
		t = &test{pkg: e.Package, name: name}
		r.tests[[2]string{e.Package, name}] = t
	}
	switch {
	case e.Action == "output" && !t.failed:
		t.message = append(t.message, e.Output)
	case sub: // a subtest: the event of the whole test follows
	case e.Action == "pass" || e.Action == "fail":
		t.longest = max(t.longest, time.Duration(e.Elapsed*float64(time.Second)))
		t.failed, t.done = t.failed || e.Action == "fail", e.Action == "pass"
		if !t.failed {
			t.message = nil
		}
	}
}

// unsteady returns one line for each test that failed and then passed, sorted by name.
func (r *results) unsteady() []string {
	var lines []string
	for t := range maps.Values(r.tests) {
		if t.failed && t.done {
			lines = append(lines, fmt.Sprintf("%s %s: %s", t.pkg, t.name, t.reason()))
		}
	}
	slices.Sort(lines)
	return lines
}

// reason returns the output of the first failure on one line. It begins at the failed assertion, if there is one.
func (t *test) reason() string {
	whole := strings.Join(t.message, "")
	if at := strings.Index(whole, "Error Trace:"); at >= 0 {
		whole = whole[at:]
	}
	words := strings.Join(strings.Fields(whole), " ")
	return words[:min(len(words), mostMessage)]
}
