package problem_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// unsettled is not a status: pop does not acknowledge the messages, so their lease stays.
const unsettled = queue.AckStatus(99)

// fixture is a Finder on a new database, and the store that fills the database.
type fixture struct {
	*problem.Finder
	t     *testing.T
	pool  *postgres.Pool
	store *store.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pool := enginetest.Pool(t, pgtest.Database(t))
	s := enginetest.Store(t, pool, func(c *store.Config) { c.Defaults = queue.DefaultDefaults() })
	return &fixture{Finder: problem.New(pool, problem.DefaultConfig()), t: t, pool: pool, store: s}
}

func (f *fixture) exec(statement string, args ...any) {
	f.t.Helper()
	enginetest.Exec(f.t, f.pool, statement, args...)
}

func (f *fixture) push(queueName, partition string, n int) {
	f.t.Helper()
	for i := range n {
		_, err := f.store.Push(f.t.Context(), []queue.PushItem{{Queue: queueName, Partition: partition, TransactionID: fmt.Sprint(i), Payload: []byte(`1`)}})
		require.NoError(f.t, err)
	}
}

// pop delivers n messages to a group. It acknowledges them with the status, unless the status is unsettled.
func (f *fixture) pop(queueName, group string, n int, status queue.AckStatus) {
	f.t.Helper()
	d, err := f.store.Pop(f.t.Context(), &queue.PopRequest{Queue: queueName, Group: group, Batch: n, Partitions: 1, Subscription: queue.Subscription{Mode: queue.SubscribeAll}})
	require.NoError(f.t, err)
	for _, m := range d.Messages {
		if status == unsettled {
			continue
		}
		results, err := f.store.Ack(f.t.Context(), []queue.AckItem{{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: group, LeaseID: d.LeaseID.String(), Status: status,
		}})
		require.NoError(f.t, err)
		require.True(f.t, results[0].Success, results[0].Error)
	}
}

// age makes all messages older.
func (f *fixture) age(d time.Duration) {
	f.t.Helper()
	f.exec(`UPDATE belfry.message SET created_at = created_at - make_interval(secs => $1)`, d.Seconds())
}

// line describes a problem without its ages. Only problems of partitions have messages.
func line(p *problem.Problem) string {
	text := fmt.Sprintf("%s %s/%s/%s: %d", p.Kind, p.Queue, p.Group, p.Partition, p.Messages)
	if p.Schedule != "" {
		text = fmt.Sprintf("%s %s/%s: %q", p.Kind, p.Queue, p.Schedule, p.Error)
	}
	if p.Urgent {
		text += ", urgent"
	}
	return text
}

// find returns a text for each problem. It requires that one request examines everything.
func (f *fixture) find(allowed []string) (lines []string, all []problem.Problem) {
	f.t.Helper()
	found, err := f.Find(f.t.Context(), problem.Position{}, 100, allowed)
	require.NoError(f.t, err)
	require.Nil(f.t, found.Next)
	require.Len(f.t, found.Problems, found.Total)
	for i := range found.Problems {
		lines = append(lines, line(&found.Problems[i]))
	}
	return lines, found.Problems
}

// Each case makes the wanted problems, and the Finder finds only these.
func TestEachProblemIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(f *fixture)
		want    []string
	}{
		"nothing is wrong": {happens: func(*fixture) {}},
		"a fresh message":  {happens: func(f *fixture) { f.push("q", "p", 3) }},
		"a late group":     {happens: func(f *fixture) { f.push("q", "p", 3); f.age(2 * time.Minute) }, want: []string{"lag q/g/: 0"}},
		"a very late group": {
			happens: func(f *fixture) { f.push("q", "p", 3); f.age(2 * time.Hour) }, want: []string{"lag q/g/: 0, urgent"}},
		"a late message under a lease": {
			happens: func(f *fixture) { f.push("q", "p", 3); f.age(2 * time.Minute); f.pop("q", "g", 1, unsettled) }, want: []string{"lag q/g/: 0"}},
		"delayed": {happens: func(f *fixture) {
			f.push("q", "p", 1)
			f.age(2 * time.Minute)
			f.exec(`UPDATE belfry.cursor SET ready_at = now() + interval '1 hour'`)
		}},
		"many partitions": {happens: func(f *fixture) {
			for i := range 25 {
				f.push("q", fmt.Sprint(i), 1)
			}
			f.age(2 * time.Minute)
		}, want: []string{"lag q/g/: 0"}},
		"a dead letter": {happens: func(f *fixture) { f.push("q", "p", 1); f.pop("q", "g", 1, queue.AckDead) }, want: []string{"dead_letters q/g/: 0"}},
		"many dead letters": {happens: func(f *fixture) {
			f.exec(`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts) SELECT 1, i, g.id, 1 FROM belfry.consumer_group g, generate_series(1, 1500) i`)
		}, want: []string{"dead_letters q/g/: 0"}},
		"delivered three times": {happens: func(f *fixture) {
			f.push("q", "p", 2)
			f.pop("q", "g", 1, unsettled)
			f.exec(`UPDATE belfry.cursor SET attempts = 3 WHERE lease_id IS NOT NULL`)
		}, want: []string{"stuck_head q/g/p: 2"}},
		"a long wait for a retry, behind earlier partitions": {happens: func(f *fixture) {
			f.exec(`UPDATE belfry.queue SET retry_delay = 600000`)
			f.push("q", "p", 1)
			f.pop("q", "g", 1, queue.AckFailed)
			for i := range 9 {
				f.push("q", fmt.Sprint(i), 1)
			}
			for range 5 { // leases that end before the wait
				f.pop("q", "g", 1, unsettled)
			}
		}, want: []string{"stuck_head q/g/p: 1"}},
		"a blocked partition, behind earlier partitions": {happens: func(f *fixture) {
			for i := range 9 {
				f.push("q", fmt.Sprint(i), 2)
			}
			f.exec(`UPDATE belfry.cursor SET retry_at = belfry.blocked(), ready_at = belfry.blocked(), failures = 4 WHERE committed = 0`)
		}, want: []string{"blocked_partition q/g/0: 2"}},
		"a short wait for a retry": {happens: func(f *fixture) {
			f.exec(`UPDATE belfry.queue SET retry_delay = 20000`)
			f.push("q", "p", 1)
			f.pop("q", "g", 1, queue.AckFailed)
		}},
		"a paused queue":     {happens: func(f *fixture) { f.push("q", "p", 4); f.exec(`SELECT belfry.pause('q')`) }, want: []string{"paused_queue q//: 0"}},
		"a paused group":     {happens: func(f *fixture) { f.push("q", "p", 4); f.exec(`SELECT belfry.pause('q', consumer_group => 'g')`) }, want: []string{"paused_group q/g/: 0"}},
		"a paused partition": {happens: func(f *fixture) { f.push("q", "p", 4); f.exec(`SELECT belfry.pause('q', 'p')`) }, want: []string{"paused_partition q//p: 4"}},
		"a deleted queue": {happens: func(f *fixture) {
			f.push("q", "p", 4)
			f.age(time.Hour)
			f.exec(`UPDATE belfry.queue SET paused = true, deleted_at = now()`)
		}},
		"the most urgent first": {happens: func(f *fixture) {
			f.push("q", "p", 1)
			f.pop("q", "g", 1, queue.AckDead)
			f.push("slow", "p", 1)
			f.pop("slow", "g", 9, unsettled)
			f.age(time.Hour)
			f.push("late", "p", 2)
			f.pop("late", "g", 1, queue.AckCompleted)
			f.age(2 * time.Minute)
			f.exec(`SELECT belfry.pause('q')`)
		}, want: []string{"lag slow/g/: 0, urgent", "lag late/g/: 0", "dead_letters q/g/: 0", "paused_queue q//: 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.push("q", "first", 1)
			f.pop("q", "g", 1, queue.AckCompleted) // registers the group
			c.happens(f)
			lines, _ := f.find(nil)
			require.Equal(t, c.want, lines)
			lines, _ = f.find([]string{"other.*"})
			require.Empty(t, lines)
			lines, _ = f.find([]string{"q", "slow", "late"})
			require.Equal(t, c.want, lines)
		})
	}
}

func TestAHeldSnapshotIsFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tx, err := f.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	enginetest.Exec(t, tx, `SELECT pg_current_xact_id()`)
	f.SetSnapshotAge(time.Nanosecond)
	lines, all := f.find(nil)
	require.Contains(t, lines, "held_snapshot //: 0")
	require.Contains(t, all[0].Session, `application "belfry-test"`)
	lines, _ = f.find([]string{"*"})
	require.Empty(t, lines, "a snapshot belongs to no queue, so a caller with patterns does not see it")
}

// A late schedule and a schedule with an error are problems for a caller who may read their queue.
func TestSchedulesAreProblems(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO belfry.schedule (name, queue, every_seconds, payload, handled_to, due_at, changed_at, error, scheduled_by)
		SELECT v.name, v.queue, 60, '{}', now(), v.due_at, now() - interval '1 minute', v.error, current_user::regrole
		  FROM (VALUES ('a', 'q', now() - interval '11 s', NULL), ('b', 'q', now() - interval '9 s', NULL), ('c', 'q', now() + interval '1 hour', NULL),
		               ('d', 'q', NULL, 'no such zone'), ('e', 'other', NULL, 'no such month'), ('f', 'other', now() - interval '2 hours', NULL),
		               ('g', 'late', '-infinity', NULL), ('h', 'q', NULL, NULL)) AS v(name, queue, due_at, error)`)
	f.exec(`INSERT INTO belfry.schedule (name, queue, every_seconds, payload, handled_to, scheduled_by) VALUES ('new', 'q', 60, '{}', now(), current_user::regrole)`)
	lines, all := f.find(nil)
	require.Equal(t, []string{`schedule_late other/f: "", urgent`, `schedule_late late/g: ""`, `schedule_late q/a: ""`, `schedule_error other/e: "no such month"`, `schedule_error q/d: "no such zone"`}, lines)
	require.True(t, all[0].Urgent)
	require.InDelta(t, 11, all[2].Age.Seconds(), 5)
	lines, _ = f.find([]string{"oth*"})
	require.Equal(t, []string{`schedule_late other/f: "", urgent`, `schedule_error other/e: "no such month"`}, lines)
	found, err := f.Find(t.Context(), problem.Position{After: 1}, 100, nil)
	require.NoError(t, err)
	require.Empty(t, found.Problems, "only the first request examines schedules")

	f.exec(`DELETE FROM belfry.schedule WHERE name = 'new'`)
	f.exec(`INSERT INTO belfry.schedule (name, queue, every_seconds, payload, handled_to, due_at, error, scheduled_by)
		SELECT n::text, 'q', 60, '{}', now(), CASE WHEN n <= 90000 THEN now() + n * interval '1 s' WHEN n < 95000 THEN now() - interval '1 minute' END,
		       CASE WHEN n >= 95000 THEN 'no' END, current_user::regrole FROM generate_series(1, 100000) n`)
	found, err = f.Find(t.Context(), problem.Position{}, problem.MaxListed, nil)
	require.NoError(t, err)
	require.Len(t, found.Problems, 200)
	require.Less(t, f.blocks("insight/problem/schedules", 10.0, int64(100), nil), 1000)
}

// The cost of a request does not grow with the number of groups. All requests together find each problem once.
func TestTheSearchIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO belfry.queue (name, paused) SELECT 'q' || i, i % 4 = 0 FROM generate_series(1, 5000) i`)
	f.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT id, 'g', true FROM belfry.queue`)
	f.exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at) SELECT id, 'Default', 5, now() FROM belfry.queue`)
	f.exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload) SELECT p.id, i, now() - interval '10 min', gen_random_uuid(), i::text, '1' FROM belfry.partition p, generate_series(1, 5) i`)
	f.exec(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at) SELECT p.id, g.id, CASE WHEN p.id % 2 = 0 AND p.id <= 3000 OR p.id > 4990 THEN now() END FROM belfry.partition p JOIN belfry.consumer_group g USING (queue_id)`)
	f.exec(`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts) SELECT c.partition_id, 1, c.group_id, 1 FROM belfry.cursor c WHERE c.group_id % 5 = 0`)
	seen, requests, examined := map[string]int{}, 0, 0
	for from := (problem.Position{}); ; requests++ {
		found, err := f.Find(t.Context(), from, problem.MaxListed, nil)
		require.NoError(t, err)
		require.Len(t, found.Problems, found.Total)
		examined += found.Examined
		for i := range found.Problems {
			seen[line(&found.Problems[i])]++
		}
		if found.Next == nil {
			break
		}
		from = *found.Next
	}
	require.Len(t, seen, 1250+750+7+1000, "a paused queue is not late")
	require.Equal(t, 7, requests+1)
	require.Equal(t, 1250+2208, examined, "the paused queues, and the groups with ready partitions or dead letters")
	few, err := f.Find(t.Context(), problem.Position{}, 3, nil)
	require.NoError(t, err)
	require.Len(t, few.Problems, 3)
	require.Equal(t, 500, few.Total)

	for name, args := range map[string][]any{
		"insight/problem/groups": {int64(0), int64(500), nil}, "insight/problem/paused": {int64(0), int64(500), nil},
		"insight/problem/heads": {[]int64{1, 2, 3}, 60.0, int64(3), 60.0}, "insight/problem/counts": {[]int64{2}, []int64{2}},
	} {
		require.Less(t, f.blocks(name, args...), 20_000, name)
	}
}

// blocks runs a statement and returns the number of blocks that it read. It requires that the plan has no Seq Scan.
func (f *fixture) blocks(query string, args ...any) int {
	f.t.Helper()
	var raw []byte
	require.NoError(f.t, f.pool.QueryRow(f.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql.Query(query), args...).Scan(&raw))
	require.NotContains(f.t, string(raw), "Seq Scan", query)
	var out []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		} `json:"Plan"`
	}
	require.NoError(f.t, json.Unmarshal(raw, &out))
	f.t.Logf("%s: %d blocks", query, out[0].Plan.Hit+out[0].Plan.Read)
	return out[0].Plan.Hit + out[0].Plan.Read
}
