package deadletter_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// plant adds n dead letters with an error to a group. Their failures are one second apart, and each has its
// own partition. Their transaction ids are the error and a number from 1.
func (r *fixture) plant(queueName, group, failure string, n int) {
	r.t.Helper()
	values := strings.NewReplacer("$1", "'"+queueName+"'", "$2", "'"+group+"'", "$3", "'"+failure+"'", "$4", strconv.Itoa(n))
	for _, statement := range []string{
		`INSERT INTO belfry.queue (name) VALUES ($1) ON CONFLICT DO NOTHING`,
		`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, $2, true FROM belfry.queue q WHERE q.name = $1 ON CONFLICT DO NOTHING`,
		`INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, $3 || i, 1 FROM belfry.queue q, generate_series(1, $4::int) AS i WHERE q.name = $1 ON CONFLICT DO NOTHING`,
		`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		 SELECT p.id, 1, now(), gen_random_uuid(), p.name, '{}' FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = $1 ON CONFLICT DO NOTHING`,
		`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error, failed_at)
		 SELECT p.id, 1, g.id, 3, $3, coalesce((SELECT max(failed_at) FROM belfry.dead_letter), '2026-01-01') + make_interval(secs => i)
		   FROM belfry.queue q JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = $2
		   JOIN belfry.partition p ON p.queue_id = q.id JOIN generate_series(1, $4::int) AS i ON p.name = $3 || i
		  WHERE q.name = $1 ORDER BY i`,
	} {
		enginetest.Exec(r.t, r.pool, values.Replace(statement))
	}
}

func lines(counts []deadletter.Count) (all []string) {
	for _, c := range counts {
		all = append(all, fmt.Sprintf("%s/%s %s%s %d", c.Queue, c.Group, c.Error, c.Partition, c.N))
	}
	return all
}

func transactions(letters []deadletter.Letter) (all []string) {
	for _, l := range letters {
		all = append(all, l.TransactionID)
	}
	return all
}

// summed reads all pages of a summary. It returns the totals by error, and the number of pages.
func (r *fixture) summed(f deadletter.Filter, bounds deadletter.SummaryBounds) (byError map[string]int64, pages int) {
	r.t.Helper()
	byError = map[string]int64{}
	for after := (deadletter.ListKey{}); ; pages++ {
		s, err := r.Summary(r.t.Context(), f, after, bounds)
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, s.Examined, bounds.Examine)
		for _, c := range s.Errors {
			byError[c.Error] += c.N
		}
		if after = s.Next; after == (deadletter.ListKey{}) {
			return byError, pages + 1
		}
	}
}

func (r *fixture) listed(f deadletter.Filter, bounds deadletter.SummaryBounds) (all []string) {
	r.t.Helper()
	for after := (deadletter.ListKey{}); ; {
		s, err := r.Summary(r.t.Context(), f, after, bounds)
		require.NoError(r.t, err)
		all = append(all, transactions(s.Letters)...)
		if after = s.LettersNext; after == (deadletter.ListKey{}) {
			return all
		}
	}
}

// A summary counts all matching dead letters, even if it lists fewer. It lists the newest dead letters.
func TestASummaryCountsByErrorAndPartition(t *testing.T) {
	r := newFixture(t)
	r.plant("q", "g", "timeout", 3)
	r.plant("q", "g", "refused", 2)
	r.plant("q", "h", "timeout", 1)
	r.plant("other", "g", "timeout", 2)
	bounds := deadletter.SummaryBounds{Examine: 100, Groups: 3, Letters: 2}
	all, err := r.Summary(t.Context(), deadletter.Filter{}, deadletter.ListKey{}, bounds)
	require.NoError(t, err)
	require.Equal(t, []int64{8, 8}, []int64{all.Examined, all.Matched})
	require.Equal(t, []string{"q/g timeout 3", "other/g timeout 2", "q/g refused 2"}, lines(all.Errors))
	require.Len(t, all.Partitions, 3, "the number of the bound")
	require.Zero(t, all.Next)
	require.Equal(t, []string{"timeout2", "timeout1"}, transactions(all.Letters))
	require.NotZero(t, all.LettersNext)
	require.True(t, all.Errors[0].Oldest.Before(all.Errors[0].Newest))

	page, err := r.Summary(t.Context(), named("q", "g"), deadletter.ListKey{}, bounds)
	require.NoError(t, err)
	require.Equal(t, []string{"q/g timeout 3", "q/g refused 2"}, lines(page.Errors))
	require.Equal(t, []string{"q/g refused2 1", "q/g refused1 1", "q/g timeout3 1"}, lines(page.Partitions))
	require.NotZero(t, page.Partitions[0].PartitionID)

	name, failure, id := "timeout2", "timeout", "refused1"
	for want, f := range map[string]deadletter.Filter{
		"timeout2": {Partition: &name}, "timeout3 timeout2 timeout1": {Error: &failure}, "refused1": {TransactionID: &id},
		"refused2": {From: page.Partitions[0].Oldest, To: page.Partitions[0].Newest}, "": {Allowed: []string{"r*"}},
	} {
		f.Queue, f.Group = new(string), new(string)
		*f.Queue, *f.Group = "q", "g"
		require.Equal(t, want, strings.Join(r.listed(f, bounds), " "), "with the queue")
		f.Queue = nil
		if f.Error == nil && f.Partition == nil { // the other queue has the same dead letters
			require.Equal(t, want, strings.Join(r.listed(f, bounds), " "), "without the queue")
		}
	}
	none, err := r.Summary(t.Context(), named("nowhere", "g"), deadletter.ListKey{}, bounds)
	require.NoError(t, err)
	require.Equal(t, deadletter.Summary{}, none)
}

// The pages of a summary together contain each dead letter once, with any limit of examined dead letters. Groups
// may fail at different times.
func TestPagesOfSummariesAreComplete(t *testing.T) {
	r := newFixture(t)
	for round := range 3 {
		r.plant("q", "g", fmt.Sprintf("a%d-", round), 4)
		r.plant("q", "h", fmt.Sprintf("b%d-", round), 1+round)
	}
	r.plant("q", "i", "c-", 1)
	queueName := "q"
	want := map[string]int64{"a0-": 4, "a1-": 4, "a2-": 4, "b0-": 1, "b1-": 2, "b2-": 3, "c-": 1}
	order := r.listed(deadletter.Filter{Queue: &queueName}, deadletter.SummaryBounds{Examine: 100, Groups: 50, Letters: 100})
	require.Len(t, order, 19)
	for _, examine := range []int64{3, 4, 7, 19, 100} {
		bounds := deadletter.SummaryBounds{Examine: examine, Groups: 50, Letters: 2}
		for _, f := range []deadletter.Filter{{}, {Queue: &queueName}} {
			got, pages := r.summed(f, bounds)
			require.Equal(t, want, got, "%d examined", examine)
			require.LessOrEqual(t, pages, 20)
			require.Equal(t, order, r.listed(f, bounds), "%d examined", examine)
		}
	}
}

// With the names of a queue and of a partition, one page of a summary finds old dead letters of the partition, if they
// are few.
func TestASummaryOfOnePartition(t *testing.T) {
	r := newFixture(t)
	r.plant("q", "g", "old", 2)
	r.plant("q", "h", "old", 2)
	r.plant("q", "g", "new", 9)
	queueName, group, partition := "q", "g", "old1"
	page, err := r.Summary(t.Context(), deadletter.Filter{Queue: &queueName, Group: &group, Partition: &partition}, deadletter.ListKey{}, deadletter.SummaryBounds{Examine: 2, Groups: 9, Letters: 9})
	require.NoError(t, err)
	require.Equal(t, []string{"q/g old1 1"}, lines(page.Partitions))
	require.Zero(t, page.Next)
	both := r.listed(deadletter.Filter{Queue: &queueName, Partition: &partition}, deadletter.SummaryBounds{Examine: 2, Letters: 1})
	require.Equal(t, []string{"old1", "old1"}, both, "the dead letters of two groups, in two pages")
	many := r.listed(deadletter.Filter{Queue: &queueName, Partition: &partition}, deadletter.SummaryBounds{Examine: 1, Letters: 1})
	require.Equal(t, both, many, "too many to examine at once")
}

// A redrive with progress reports after each transaction, and ends early with the error of the report.
func TestARedriveReportsItsProgress(t *testing.T) {
	r := newFixture(t)
	r.fill(5)
	r.Bound(2, 0)
	var reports []deadletter.Result
	stop := fmt.Errorf("stop")
	_, err := r.RedriveAll(t.Context(), named("q", "g"), 0, func(so deadletter.Result) error {
		reports = append(reports, counts(so))
		return stop
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, []deadletter.Result{{Matched: 5, Taken: 2, Remaining: 3}}, reports)
	reports = nil
	done, err := r.RedriveAll(t.Context(), named("q", "g"), 1000, func(so deadletter.Result) error {
		reports = append(reports, counts(so))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: 3, Taken: 3}, counts(done))
	require.Equal(t, []deadletter.Result{{Matched: 3, Taken: 2, Remaining: 1}, counts(done)}, reports)
}

// With a filter by error, a redrive and a purge take only the dead letters with this error.
func TestARedriveOfOneError(t *testing.T) {
	r := newFixture(t)
	r.plant("q", "g", "timeout", 2)
	r.plant("q", "g", "refused", 1)
	failure := "refused"
	f := named("q", "g")
	f.Error = &failure
	done, err := r.Purge(t.Context(), f, false)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: 1, Taken: 1}, counts(done))
	page, err := r.List(t.Context(), named("q", "g"), deadletter.ListKey{}, 10, 0)
	require.NoError(t, err)
	require.Equal(t, int64(2), page.Total)
	require.Equal(t, []string{"timeout2", "timeout1"}, transactions(page.Letters))
	page, err = r.List(t.Context(), f, deadletter.ListKey{}, 10, 0)
	require.NoError(t, err)
	require.Zero(t, page.Total)
	require.Empty(t, page.Letters)
}
