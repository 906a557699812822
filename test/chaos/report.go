package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// report prints the operations by kind and outcome, the recorded changes, and the faults by name.
func (c *chaos) report(operations []history.Operation) {
	type outcome struct {
		kind    string
		outcome history.Outcome
	}
	count, items := map[outcome]int{}, map[outcome]int{}
	for _, o := range operations {
		at := outcome{string(o.Kind), o.Outcome}
		if o.Transaction != "" {
			at.kind += " in a transaction"
		}
		count[at]++
		items[at] += len(o.Items)
	}
	var kinds []outcome
	for at := range count {
		kinds = append(kinds, at)
	}
	slices.SortFunc(kinds, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.outcome, b.outcome))
	})
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(table, "\noperation\toutcome\tcount\tmessages\t\n")
	for _, at := range kinds {
		printf(table, "%s\t%s\t%d\t%d\t\n", at.kind, at.outcome, count[at], items[at])
	}
	counts := c.clients.Counts()
	printf(table, "malformed\trefused\t%d\t\t\n", counts.MalformedRefused)
	printf(table, "malformed\tunavailable\t%d\t\t\n", counts.MalformedUnavailable)
	printf(table, "malformed\tunanswered\t%d\t\t\n", counts.MalformedUnanswered)
	printf(table, "intruders\trefused\t%d\t\t\n", counts.IntrusionsRefused)
	printf(table, "malformed\tper second\t%.0f\t\t\n", float64(counts.MalformedRefused)/max(c.worked.Seconds(), 1))

	if len(c.changes) > 0 {
		printf(table, "\nchanged\thow\tcount\tunread or moved back\t\n")
	}
	for _, one := range c.changes {
		printf(table, "%s\t%s\t%d\t%d\t\n", one.what, one.how, one.times, one.part)
	}

	byName := map[string][]window{}
	var names []string
	for _, v := range c.windows {
		if byName[v.fault] == nil {
			names = append(names, v.fault)
		}
		byName[v.fault] = append(byName[v.fault], v)
	}
	slices.Sort(names)
	printf(table, "\nfault\tcount\tlongest stall\tlongest recovery\t\n")
	for _, name := range names {
		var stall, recovery time.Duration
		for _, v := range byName[name] {
			stall, recovery = max(stall, v.stall), max(recovery, v.recovered-v.end)
		}
		printf(table, "%s\t%d\t%s\t%s\t\n", name, len(byName[name]), short(stall), short(recovery))
	}
	_ = table.Flush() // the run continues if the output fails, as in printf
}

// end removes the folder of a successful run, unless the settings keep it. A kept folder has the seed, the history
// and the logs of the servers.
func (c *chaos) end(err error) error {
	if err == nil && !c.keep {
		if err := os.RemoveAll(c.dir); err != nil {
			return fmt.Errorf("removing the folder of the run: %w", err)
		}
		return nil
	}
	outcome := "all promises were kept"
	if err != nil {
		outcome = err.Error()
	}
	err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, "cluster")))
	seed := fmt.Sprintf("go run ./test/chaos --seed %d --duration %s --instances %d\n\n%v\n", c.seed, c.duration, c.instances, outcome)
	err = errors.Join(err, os.WriteFile(filepath.Join(c.dir, "seed.txt"), []byte(seed), 0o644), c.keepHistory(err))
	printf(c.out, "\nkept in %s: seed.txt, history.jsonl, the logs of the servers, and offending.jsonl with the operations that concern the first violation\n", c.dir)
	return err
}

// keepHistory writes the history, and the operations that concern the first violation.
func (c *chaos) keepHistory(why error) error {
	operations := c.recorder.Operations()
	if c.clients != nil {
		c.clients.Resolve(operations)
	}
	err := c.write("history.jsonl", operations)
	var broken *brokenError
	if errors.As(why, &broken) {
		err = errors.Join(err, c.write("offending.jsonl", check.Cut(operations, broken.violations[0])))
	}
	return err
}

func (c *chaos) write(name string, operations []history.Operation) error {
	file, err := os.Create(filepath.Join(c.dir, name))
	if err != nil {
		return fmt.Errorf("keeping the history: %w", err)
	}
	return errors.Join(history.Write(file, operations), file.Close())
}
