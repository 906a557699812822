package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// Options say how strictly to judge.
type Options struct {
	// Bound is how long a waiting pop may go without a message that is ready. 0:
	// the rule stuck is not applied.
	Bound time.Duration
	// LeaseDuration is the longest that a lease lives after it was given or
	// extended. The rule stuck needs it.
	LeaseDuration time.Duration
	// IdleAfter is how long nothing must have been pushed to a partition before it is
	// removed.
	IdleAfter time.Duration
	// Windows are the faults during the run.
	Windows []Window
	// Undrained: the run ended with messages left on purpose, so the rule
	// leftover is not applied, and messages beyond a cursor may be undelivered.
	Undrained bool
}

// Window is a time in which something was broken on purpose. An interval that
// touches it may be longer than Bound by Allowance.
type Window struct {
	Begin, End time.Duration
	Allowance  time.Duration
	// Silence is how much longer than that consumers in SQL may wait, since nobody may
	// be there to tell them.
	Silence time.Duration
}

// Violation is a breach of a rule.
type Violation struct {
	Rule string
	// Operation is the ID of the operation that shows it first; 0: the tables do.
	Operation int64
	// Queue, Partition and Group say where it is, as far as they matter to it.
	Queue, Partition, Group string
	// Transaction is the one that it is about, if it is about one.
	Transaction string
	Message     string
}

// String is one line for people.
func (v Violation) String() string {
	where := fmt.Sprintf("queue %q", v.Queue)
	if v.Partition != "" {
		where += fmt.Sprintf(" partition %q", v.Partition)
	}
	if v.Group != "" {
		where += fmt.Sprintf(" group %q", v.Group)
	}
	if v.Operation != 0 {
		where += fmt.Sprintf(" operation %d", v.Operation)
	}
	return fmt.Sprintf("%s: %s: %s", v.Rule, where, v.Message)
}

// maxOfRule is how many violations of one rule are reported; one bug often
// makes thousands.
const maxOfRule = 20

// rules are all rules. Each returns its violations in any order.
var rules = []func(*index) []Violation{
	stored, dedup, unpushed, pushOrder, delivered, early, deliveries, again, atomic, deadLetters, leases, tenures, cursors, counts, stuck,
	deletions, expiries, sweeps, erasures, removals, seeks, fences, rejoined, returned,
}

// Run judges a history, whose operations may be in any order, and the state the
// run ended with. The violations of a rule stand together, that of the
// operation that began first in front; at most 20 of each are returned.
func Run(operations []history.Operation, state State, options Options) []Violation {
	x := newIndex(operations, state, options)
	byRule := map[string][]Violation{}
	var names []string
	for _, rule := range rules {
		for _, v := range rule(x) {
			if len(byRule[v.Rule]) == 0 {
				names = append(names, v.Rule)
			}
			byRule[v.Rule] = append(byRule[v.Rule], v)
		}
	}
	var all []Violation
	for _, name := range names {
		found := byRule[name]
		slices.SortStableFunc(found, func(a, b Violation) int { return cmp.Compare(x.began(a.Operation), x.began(b.Operation)) })
		all = append(all, found[:min(len(found), maxOfRule)]...)
	}
	return all
}

// began is when an operation began. What the tables show comes last.
func (x *index) began(id int64) time.Duration {
	if o := x.byID[id]; o != nil {
		return o.Begin
	}
	return forever
}

// excuses says whether a fault that breaks connections of servers, or Postgres, met an
// operation: one that excuses no wait breaks neither.
func (o *Options) excuses(op *history.Operation) bool {
	return slices.ContainsFunc(o.Windows, func(w Window) bool {
		return w.Allowance > 0 && w.Begin <= op.End && w.End >= op.Begin
	})
}

// allowed is how long an operation may have waited from one instant to another. What a
// consumer in SQL asked for when something was broken may have been heard by nobody.
func (o *Options) allowed(op *history.Operation, from, to time.Duration) time.Duration {
	inSQL := op.Kind == history.Await
	if inSQL {
		from = op.Begin
	}
	bound := o.Bound
	for _, w := range o.Windows {
		if w.Begin > to || w.End < from {
			continue
		}
		bound += w.Allowance
		if inSQL {
			bound += w.Silence
		}
	}
	return bound
}
