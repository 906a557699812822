package stats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// firstColumn maps each index on a growing table to its first column.
var firstColumn = map[string]string{
	"partition_id": "id", "partition_queue_id_name_key": "queue_id", "message_pkey": "partition_id",
	"message_partition_id_transaction_id_key": "partition_id", "cursor_place": "partition_id", "cursor_ready": "group_id",
	"dead_letter_pkey": "id", "dead_letter_partition_id_group_id_seq_key": "partition_id",
	"consumer_group_pkey": "id", "consumer_group_queue_id_name_key": "queue_id",
}

// requirePlans checks that each statement reads every growing table by the first column
// of an index, for any table statistics.
func (r *fixture) requirePlans(state string) {
	r.t.Helper()
	conn, err := r.pool.Acquire(r.t.Context())
	require.NoError(r.t, err)
	defer conn.Release()
	for _, name := range []string{"insight/stats/counts", "insight/stats/partitions", "insight/stats/modes", "insight/stats/message_partitions", "insight/stats/message_block", "insight/stats/message_window", "insight/stats/message_partitions_of", "insight/stats/queues_of", "insight/stats/queue_tags",
		"insight/stats/queue_group", "insight/stats/queue_size", "insight/stats/group_places", "insight/stats/group_places_named", "insight/stats/queue_heat", "insight/stats/seek_preview"} {
		prepared, err := conn.Conn().Prepare(r.t.Context(), name+state, sql.Query(name))
		require.NoError(r.t, err)
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(prepared.ParamOIDs)), ", ")
		var raw []byte
		require.NoError(r.t, conn.QueryRow(r.t.Context(), fmt.Sprintf("EXPLAIN (FORMAT JSON) EXECUTE %q (%s)", name+state, nulls),
			pgx.QueryExecModeSimpleProtocol).Scan(&raw))
		var out []struct {
			Plan enginetest.Plan `json:"Plan"`
		}
		require.NoError(r.t, json.Unmarshal(raw, &out))
		out[0].Plan.Walk(func(p *enginetest.Plan) {
			require.NotEqual(r.t, "Seq Scan", p.Type, "%s, %s: %s", name, state, p.Relation)
			require.NotEqual(r.t, "partition_counts", p.Relation, "%s, %s: the function is not inlined", name, state)
			if column, grows := firstColumn[p.Index]; grows {
				require.Contains(r.t, p.Cond, column+" ", "%s, %s: %s walks all of %s", name, state, p.Type, p.Index)
			}
		})
	}
}

// manyPartitions creates a queue of n partitions with one message each. A group is done
// with every second message.
func (r *fixture) manyPartitions(n int) {
	r.t.Helper()
	r.configure("crowd")
	r.exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT q.id, 'p' || i, 1, statement_timestamp() - i * interval '1 ms' FROM belfry.queue q, generate_series(1, $1::int) i`, n)
	r.exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, 1, p.last_push_at, gen_random_uuid(), p.name, '{}' FROM belfry.partition p WHERE p.last_seq = 1`)
	r.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT id, 'g', true FROM belfry.queue`)
	r.exec(`INSERT INTO belfry.cursor (partition_id, group_id, committed)
		SELECT p.id, g.id, p.id % 2 FROM belfry.partition p, belfry.consumer_group g WHERE p.last_seq = 1`)
}

func TestStatementsHaveOnePlan(t *testing.T) {
	r := newFixture(t)
	r.requirePlans("on an empty schema")
	r.manyPartitions(2000)
	r.requirePlans("after growth without ANALYZE")
	r.exec(`ANALYZE`)
	r.requirePlans("analyzed")
}

// reads runs a statement under EXPLAIN and returns the number of buffers that it read.
// This cost does not depend on the load of the machine.
func (r *fixture) reads(query string, args ...any) int {
	r.t.Helper()
	var raw []byte
	require.NoError(r.t, r.pool.QueryRow(r.t.Context(),
		"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql.Query(query), args...).Scan(&raw))
	var out []struct {
		Plan enginetest.Plan `json:"Plan"`
	}
	require.NoError(r.t, json.Unmarshal(raw, &out))
	return out[0].Plan.Hit + out[0].Plan.Read
}

// The test measures the cost with 100,000 partitions. A sum needs a few index probes for
// each partition. A page of messages needs the rows of the partitions and some probes for
// each message.
func TestTheCostOfManyPartitions(t *testing.T) {
	const partitions = 100_000
	const probes = 12 // three index levels for each of dead letters, cursor and head, and the rows
	r := newFixture(t)
	r.manyPartitions(partitions)
	queues := []int64{1}
	require.Less(t, r.reads("insight/stats/counts", queues, []*string{nil}, int64(1000), true), 1000*probes)
	last := "p99"
	require.Less(t, r.reads("insight/stats/counts", queues, []*string{&last}, int64(1000), true), 1000*probes, "the last page")
	require.Less(t, r.reads("insight/stats/message_partitions", queues, nil, time.Unix(0, 0), time.Now(), 201, ""), 3*partitions)
	require.Less(t, r.reads("insight/stats/message_partitions", queues, nil, time.Unix(0, 0), time.Now(), 201, "dead_letter"), 6*partitions)

	require.Less(t, r.reads("insight/stats/message_window", int64(0), "", int64(1<<62), int64(1000)), 1000*3)
	ids := make([]int64, 1000)
	for i := range ids {
		ids[i] = int64(50_000 + i)
	}
	require.Less(t, r.reads("insight/stats/message_partitions_of", ids, nil, time.Unix(0, 0), time.Now(), 201, "dead_letter", queues), 1000*probes)

	began := time.Now()
	o, err := r.Overview(t.Context(), nil)
	require.NoError(t, err)
	t.Logf("an overview of %d partitions: %s", partitions, time.Since(began))
	require.EqualValues(t, partitions+1, o.Partitions)
	require.Equal(t, stats.Counts{Total: partitions, Pending: partitions / 2, Completed: partitions / 2}, o.Counts)
	require.Equal(t, api.Spread{Avg: 1, Median: 1, Min: 1, Max: 1}, o.OffsetLag)
	began = time.Now()
	page, err := r.Messages(t.Context(), stats.MessageFilter{Limit: 200})
	require.NoError(t, err)
	t.Logf("a page of messages: %s", time.Since(began))
	require.Equal(t, []string{"p1", "p200"}, []string{page.Messages[0].TransactionID, page.Messages[199].TransactionID})
	next, err := r.Messages(t.Context(), stats.MessageFilter{Limit: 200, After: page.Next})
	require.NoError(t, err)
	require.Equal(t, []string{"p201", "p400"}, []string{next.Messages[0].TransactionID, next.Messages[199].TransactionID})
	require.Empty(t, r.list(stats.MessageFilter{Status: stats.StatusDeadLetter}))

	// A list that would search every partition is refused. The error says how to narrow it.
	past := stats.MessageFilter{Limit: 200, To: time.Now().Add(-90 * time.Minute)}
	_, err = r.Messages(t.Context(), past)
	require.Equal(t, queue.CodeInvalid, queue.CodeOf(err))
	require.ErrorContains(t, err, "name a queue or a partition")
	partition := "p77777"
	past.Partition = &partition
	require.Empty(t, r.list(past))
}

// A statement of another program may contain data or a password, so Statements hides its text.
func TestStatementsOfOtherProgramsAreHidden(t *testing.T) {
	r := newFixture(t)
	const secretText, placeholder = `SELECT 'hunter2', pg_sleep(600)`, "(statement of another program)"
	want := map[int64]string{}
	for name, text := range map[string]string{
		"belfry": secretText, "belfry-listen": secretText, "belfry migrate": secretText,
		"": placeholder, "shop": placeholder, "belfry-shop": placeholder, "Belfry": placeholder,
	} {
		conn, err := pgx.ConnectConfig(t.Context(), r.conn.Config())
		require.NoError(t, err)
		enginetest.Exec(t, conn, `SELECT set_config('application_name', $1, false)`, name)
		want[int64(conn.PgConn().PID())] = text
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = conn.Exec(context.Background(), secretText) // fails when the test terminates the session
		}()
		t.Cleanup(func() {
			_, err := r.conn.Exec(context.Background(), `SELECT pg_terminate_backend($1)`, conn.PgConn().PID())
			require.NoError(t, err)
			<-done
		})
	}
	have := map[int64]string{}
	require.Eventually(t, func() bool {
		running, err := r.Statements(t.Context())
		for _, s := range running {
			have[s.PID] = s.Query
		}
		return err != nil || len(have) == len(want)
	}, enginetest.Patience, 100*time.Millisecond)
	require.Equal(t, want, have)
}
