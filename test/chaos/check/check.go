package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// Options are the parameters of a check.
type Options struct {
	// WakeBound is the maximum time from a message being ready to its delivery to a waiting pop. 0 disables the rule
	// stuck.
	WakeBound time.Duration
	// LeaseDuration is the maximum time from a claim or extend to the end of the lease. The rule stuck needs it.
	LeaseDuration time.Duration
	// IdleAfter is the time without pushes after which an empty partition is removed.
	IdleAfter time.Duration
	// Windows are the faults during the run.
	Windows []FaultWindow
	// Undrained means that the run ended with messages left on purpose. The function delivered then reports neither
	// the rule leftover nor messages beyond a cursor that were never delivered.
	Undrained bool
}

// FaultWindow is the time of an injected fault. Allowance is added to WakeBound for each wait that overlaps the
// fault.
type FaultWindow struct {
	Begin, End time.Duration
	Allowance  time.Duration
	// SQLAllowance is an additional allowance for consumers in SQL, because no running instance may be able to wake
	// them.
	SQLAllowance time.Duration
}

// Violation is a breach of a rule.
type Violation struct {
	Rule string
	// Operation is the ID of the first operation that shows the breach, or 0 if only the tables show it.
	Operation int64
	// Queue, Partition and Group are the position of the breach. They may be empty.
	Queue, Partition, Group string
	// Transaction is the id of a transaction of several operations, or empty. It is unrelated to the transaction ids
	// of messages.
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

// Late reports whether the violation breaks only a time limit. A busy machine cannot cause the other violations.
func (v Violation) Late() bool { return v.Rule == ruleStuck }

// maxPerRule is the maximum number of reported violations per rule. One bug often causes thousands.
const maxPerRule = 20

// rules are the functions that check the rules. The package comment explains each value of Violation.Rule. One
// function may report several rules. Each function returns its violations in any order.
var rules = []func(*index) []Violation{
	stored, dedup, unpushed, pushOrder, delivered, early, deliveries, notDeliveredAgain, atomic, dead, leases, leasePeriods, cursors, counts, stuck,
	deletions, expiries, sweeps, erasures, removals, seeks, fenced, rejoined, redelivered,
}

// Run checks a history and the state at the end of the run. The operations may be in any order. Run groups the
// violations by rule and sorts each group by the begin of the operations. It returns at most 20 violations per rule.
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

// began returns the begin of an operation. Operation 0 (the tables) sorts last.
func (x *index) began(id int64) time.Duration {
	if o := x.byID[id]; o != nil {
		return o.Begin
	}
	return forever
}

// brokeConnectionsDuring reports whether an operation overlaps a fault that breaks connections of the servers or of
// Postgres. Faults with Allowance 0 break no connection.
func (o *Options) brokeConnectionsDuring(op *history.Operation) bool {
	return slices.ContainsFunc(o.Windows, func(w FaultWindow) bool {
		return w.Allowance > 0 && w.Begin <= op.End && w.End >= op.Begin
	})
}

// allowedWait returns how long an operation may have waited between two instants. For a consumer in SQL it adds all
// faults since the begin of the wait, because a fault may have lost the request of the consumer.
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
