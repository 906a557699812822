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
	// WakeBound is how long a message may be ready before a waiting pop must have it. 0 turns the rule stuck off.
	WakeBound time.Duration
	// LeaseDuration is the longest life of a lease after the claim or the last extend. The rule stuck needs it.
	LeaseDuration time.Duration
	// IdleAfter is the time without pushes after which an empty partition is removed.
	IdleAfter time.Duration
	// Windows are the faults during the run.
	Windows []FaultWindow
	// Undrained: the run ended with messages left on purpose. The function delivered then reports neither the rule
	// leftover nor messages beyond a cursor that were never delivered.
	Undrained bool
}

// FaultWindow is the time of an injected fault. A wait that overlaps it may be longer than WakeBound by Allowance.
type FaultWindow struct {
	Begin, End time.Duration
	Allowance  time.Duration
	// SQLAllowance is the additional time for consumers in SQL: perhaps no instance runs that could wake them.
	SQLAllowance time.Duration
}

// Violation is a breach of a rule.
type Violation struct {
	Rule string
	// Operation is the ID of the first operation that shows the breach. 0: only the tables show it.
	Operation int64
	// Queue, Partition and Group say where the breach is, as far as they matter.
	Queue, Partition, Group string
	// Transaction is the id of a transaction of several operations, or empty. It is not the transaction id of a message.
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

// Late reports whether the violation breaks a time limit only. All others are losses, repetitions, a wrong order or wrong
// answers, on a machine of any speed.
func (v Violation) Late() bool { return v.Rule == ruleStuck }

// maxPerRule is how many violations of one rule are reported. One bug often makes thousands.
const maxPerRule = 20

// rules are the functions that judge. The package comment explains each value of Violation.Rule that they report. One
// function may report several rules. Each returns its violations in any order.
var rules = []func(*index) []Violation{
	stored, dedup, unpushed, pushOrder, delivered, early, deliveries, notDeliveredAgain, atomic, dead, leases, leasePeriods, cursors, counts, stuck,
	deletions, expiries, sweeps, erasures, removals, seeks, fenced, rejoined, redelivered,
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
		all = append(all, found[:min(len(found), maxPerRule)]...)
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

// brokeConnectionsDuring reports whether a fault that breaks connections of the servers or of Postgres overlaps an
// operation. Faults without an Allowance break no connection.
func (o *Options) brokeConnectionsDuring(op *history.Operation) bool {
	return slices.ContainsFunc(o.Windows, func(w FaultWindow) bool {
		return w.Allowance > 0 && w.Begin <= op.End && w.End >= op.Begin
	})
}

// allowedWait is how long an operation may have waited between two instants. For a consumer in SQL, faults count since
// its wait began, because perhaps no instance received its request.
func (o *Options) allowedWait(op *history.Operation, from, to time.Duration) time.Duration {
	inSQL := op.Kind == history.Await
	if inSQL {
		from = op.Begin
	}
	wait := o.WakeBound
	for _, w := range o.Windows {
		if w.Begin > to || w.End < from {
			continue
		}
		wait += w.Allowance
		if inSQL {
			wait += w.SQLAllowance
		}
	}
	return wait
}
