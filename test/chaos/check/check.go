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
	// Bound is the longest time that a waiting pop may go without a ready message. 0 turns the rule stuck off.
	Bound time.Duration
	// LeaseDuration is the longest life of a lease after the claim or the last extend. The rule stuck needs it.
	LeaseDuration time.Duration
	// IdleAfter is the time without pushes after which an empty partition is removed.
	IdleAfter time.Duration
	// Windows are the faults during the run.
	Windows []Window
	// Undrained: the run ended with messages left on purpose. The rule leftover is off, and messages beyond a cursor
	// may be undelivered.
	Undrained bool
}

// Window is a time of an injected fault. An interval that touches it may be longer than Bound by Allowance.
type Window struct {
	Begin, End time.Duration
	Allowance  time.Duration
	// SQLAllowance is the additional time for consumers in SQL, because no instance may be there to wake them.
	SQLAllowance time.Duration
}

// Violation is a breach of a rule.
type Violation struct {
	Rule string
	// Operation is the ID of the first operation that shows the breach. 0: only the tables show it.
	Operation int64
	// Queue, Partition and Group say where the breach is, as far as they matter.
	Queue, Partition, Group string
	// Transaction is the id of the transaction in question, or empty.
	Transaction string
	Message     string
}

// String returns the violation as one line.
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

// maxOfRule is how many violations of one rule are reported. One bug often makes thousands.
const maxOfRule = 20

// rules are all rules. Each returns its violations in any order.
var rules = []func(*index) []Violation{
	stored, dedup, unpushed, pushOrder, delivered, early, deliveries, again, atomic, deadLetters, leases, leasePeriods, cursors, counts, stuck,
	deletions, expiries, sweeps, erasures, removals, seeks, fences, rejoined, returned,
}

// Run judges a history and the state at the end of the run. The operations may be in any order. Violations of one rule
// stand together, ordered by the begin of their operations. At most 20 of each rule are returned.
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

// began is when an operation began. Operation 0 (the tables) sorts last.
func (x *index) began(id int64) time.Duration {
	if o := x.byID[id]; o != nil {
		return o.Begin
	}
	return forever
}

// excuses reports whether a fault that breaks connections of the servers or of Postgres overlaps an operation. Faults
// without an Allowance break no connection.
func (o *Options) excuses(op *history.Operation) bool {
	return slices.ContainsFunc(o.Windows, func(w Window) bool {
		return w.Allowance > 0 && w.Begin <= op.End && w.End >= op.Begin
	})
}

// allowed is how long an operation may have waited between two instants. For a consumer in SQL, faults count since its
// wait began, because no instance may have received its request.
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
			bound += w.SQLAllowance
		}
	}
	return bound
}
