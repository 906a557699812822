package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// run is a history and a final state for the checker.
type run struct {
	operations []history.Operation
	state      check.State
	options    check.Options
}

// story is a correct run in one partition. a, b, c and d are pushed. a and b are delivered and completed. c and d are
// delivered, c is completed and d fails. d is delivered again and becomes a dead letter. Each operation takes 1 s,
// and the next operation begins 1 s later. The IDs count from 1.
func story() *run {
	r := &run{}
	r.add(history.Operation{Kind: history.Push, Items: pushed("a", "b", "c")})
	r.add(history.Operation{Kind: history.Push, Items: pushed("d")})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L1", Items: delivered("a", "b")})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L1", Items: acked("completed", "a", "b")})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L2", Items: delivered("c", "d")})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L2", Items: slices.Concat(acked("completed", "c"), acked("failed", "d"))})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L3", Items: delivered("d")})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L3", Items: acked("failed", "d")})
	r.op(8).Items[0].DeadLettered = true
	r.state.Partitions = []check.Partition{{
		Queue: "q", Name: "p", LastSeq: 4, Log: logOf("a", "b", "c", "d"),
		Cursors: []check.Cursor{{Group: "g", FromStart: true, Committed: 4, Consumed: 4, Dead: []int64{4}}},
	}}
	return r
}

// add adds an operation after the last one and returns it.
func (r *run) add(o history.Operation) *history.Operation {
	n := len(r.operations)
	o.ID, o.Client, o.Queue = int64(n+1), "client", "q"
	if o.Outcome == "" {
		o.Outcome = history.Done
	}
	if o.Kind != history.Push {
		o.Group = "g"
	}
	o.Begin = time.Duration(2*n) * time.Second
	o.End = o.Begin + time.Second
	r.operations = append(r.operations, o)
	return &r.operations[n]
}

func (r *run) op(id int) *history.Operation { return &r.operations[id-1] }

// drop removes an operation. The other operations keep their IDs.
func (r *run) drop(id int64) {
	r.operations = slices.DeleteFunc(r.operations, func(o history.Operation) bool { return o.ID == id })
}

func (r *run) part() *check.Partition { return &r.state.Partitions[0] }

func (r *run) cursor() *check.Cursor { return &r.part().Cursors[0] }

func (r *run) judge() []check.Violation { return check.Run(r.operations, r.state, r.options) }

func pushed(ids ...string) []history.Item {
	var items []history.Item
	for _, id := range ids {
		items = append(items, history.Item{Partition: "p", TransactionID: id, MessageID: "m-" + id})
	}
	return items
}

func delivered(ids ...string) []history.Item { return pushed(ids...) }

func acked(status string, ids ...string) []history.Item {
	var items []history.Item
	for _, id := range ids {
		items = append(items, history.Item{Partition: "p", TransactionID: id, Status: status, Accepted: true})
	}
	return items
}

func logOf(ids ...string) []check.Message {
	var log []check.Message
	for i, id := range ids {
		log = append(log, check.Message{Seq: int64(i + 1), MessageID: "m-" + id, TransactionID: id})
	}
	return log
}

// breach is a change of the story that breaks a rule.
type breach struct {
	name string
	// rules are exactly the rules that the change breaks. A violation of the first rule must have a message that
	// contains about, and must name operation.
	rules, about string
	operation    int64
	change       func(*run)
	// mend changes the broken run into the nearest correct run.
	mend func(*run)
}

// after returns a change that makes two changes, one after the other.
func after(first, second func(*run)) func(*run) {
	return func(r *run) {
		first(r)
		second(r)
	}
}

func runBreaches(t *testing.T, breaches []breach) {
	t.Helper()
	for _, b := range breaches {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			r := story()
			b.change(r)
			found := r.judge()
			require.ElementsMatch(t, strings.Fields(b.rules), rulesOf(found), "%v", found)
			rule := strings.Fields(b.rules)[0]
			first := found[slices.IndexFunc(found, func(v check.Violation) bool { return v.Rule == rule })]
			require.Contains(t, first.Message, b.about)
			require.Equal(t, b.operation, first.Operation, first.String())
			require.Contains(t, rulesOf(check.Run(check.Cut(r.operations, first), check.CutState(r.state, first), r.options)), rule, "the part that Cut returns breaks the rule too")
			b.mend(r)
			require.Empty(t, r.judge())
		})
	}
}

// rulesOf returns the name of each broken rule, without repetitions.
func rulesOf(found []check.Violation) []string {
	var rules []string
	for _, v := range found {
		if !slices.Contains(rules, v.Rule) {
			rules = append(rules, v.Rule)
		}
	}
	return rules
}

// The package doc names each rule, and a breach in a test breaks each rule.
func TestEachRuleHasABreach(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var tables strings.Builder
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		tables.Write(text)
	}
	rules := regexp.MustCompile(`(?m)^//\t([a-z-]+) {2,}\S`).FindAllStringSubmatch(string(doc), -1)
	require.Greater(t, len(rules), 20)
	for _, rule := range rules {
		row := regexp.MustCompile(`(?m)^\t+\{?"[^"]+", "` + rule[1] + `[ "]`)
		require.True(t, row.MatchString(tables.String()), rule[1])
	}
}

func TestTheStoryIsCorrect(t *testing.T) {
	t.Parallel()
	require.Empty(t, story().judge())
	require.Empty(t, check.Run(nil, check.State{}, check.Options{WakeBound: time.Second}))
}

func TestViolationsAreOneLine(t *testing.T) {
	t.Parallel()
	r := story()
	r.op(5).Items = delivered("d")
	var lines []string
	for _, v := range r.judge() {
		lines = append(lines, v.String())
	}
	require.Contains(t, lines, `skipped: queue "q" partition "p" group "g" operation 5: `+
		`the delivery starts with "d" at 4, but "c" at 3 was neither completed, consumed nor dead-lettered by then`)
}

func TestTheOrderOfOperationsDoesNotMatter(t *testing.T) {
	t.Parallel()
	r := story()
	slices.Reverse(r.operations)
	require.Empty(t, r.judge())
}

func TestOnlyTheFirstViolationsAreReported(t *testing.T) {
	t.Parallel()
	r := story()
	for n := range 100 {
		r.add(history.Operation{Kind: history.Pop, LeaseID: "again" + time.Duration(n).String(), Items: delivered("a")})
	}
	slices.Reverse(r.operations)
	var found []check.Violation
	for _, v := range r.judge() {
		if v.Rule == "again" {
			found = append(found, v)
		}
	}
	require.Len(t, found, 20)
	require.Equal(t, int64(9), found[0].Operation)
}
