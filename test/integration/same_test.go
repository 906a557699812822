package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/contract"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// docs/compatibility.md says that some routes are the same as in Queen MQ. The answers of these routes, and of some others, must
// have every member that clients of Queen MQ know, with its type.
func TestAnswersHaveTheMembersOfQueenMQ(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	s := startOn(t, dsn, proven)
	other := startOn(t, dsn, proven)
	s.untilProven(t, 1)
	other.untilProven(t, 1)
	c := s.client(t)
	partition := c.pushIDs("q", "p", "1", "2")[0].PartitionID
	c.popIDs("q", "consumerGroup=g&batch=1")
	c.popIDs("q", "consumerGroup=late&subscriptionMode=new")
	ask[any](c, post("/api/v1/traces", fmt.Sprintf(`{"transactionId":"1","partitionId":%q,"data":{"step":1},"traceNames":["a"]}`, partition))).ok(http.StatusCreated)
	fillHistory(t, s)
	runSlowQuery(t, dsn)

	requests := map[string]call{
		"DELETE /api/v1/consumer-groups/:group":                                        remove(groupsPath + "/gone"),
		"DELETE /api/v1/consumer-groups/:group/queues/:queue":                          remove(groupsPath + "/gone/queues/q"),
		"POST /api/v1/consumer-groups/:group/subscription":                             post(groupsPath+"/late/subscription", `{"subscriptionTimestamp":"2026-05-16T08:41:27Z"}`),
		"POST /api/v1/consumer-groups/:group/queues/:queue/seek":                       post(groupsPath+"/g/queues/q/seek", `{"timestamp":"2026-05-16T08:41:27Z"}`),
		"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek": post(groupsPath+"/g/queues/q/partitions/p/seek", ""),
		"POST /streams/v1/queries":                                                     post("/streams/v1/queries", `{"name":"sum","source_queue":"q","config_hash":"1"}`),
		"GET /api/v1/traces/:partitionId/:transactionId":                               get("/api/v1/traces/" + partition + "/1"),
	}
	shapes, err := contract.Shapes()
	require.NoError(t, err)
	for route, shape := range shapes {
		request, ok := requests[route]
		if method, path, _ := strings.Cut(route, " "); !ok {
			require.NotContains(t, path, ":", "add a request for %s to requests", route)
			request = call{Method: method, Target: path}
		}
		got, err := c.send(t.Context(), request)
		require.NoError(t, err, route)
		require.Equal(t, http.StatusOK, got.Status, "%s: %s", route, got.Raw)
		var value any
		require.NoError(t, json.Unmarshal(got.Raw, &value), route)
		assert.Empty(t, contract.Differences(shape, value), "%s: %s", route, got.Raw)
	}
}

// fillHistory writes the history of one minute. In that minute requests waited and a sweep deleted messages.
func fillHistory(t *testing.T, s *server) {
	t.Helper()
	s.scan(t, `WITH i AS (
			INSERT INTO belfry.history_instance
			SELECT date_trunc('minute', now()) - interval '2 minutes', 1, '00000000-0000-4000-8000-000000000001', 'host', 6632, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1
			RETURNING at, instance),
		h AS (
			INSERT INTO belfry.history
			SELECT i.at, 1, i.instance, 'q', 'g', 1, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 1, 0, 0, 0, '{}', 5 FROM i RETURNING 1)
		SELECT count(*) FROM h`, nil, new(int))
}

// runSlowQuery runs a statement until the end of t. It returns when the statement has run for a second, which the server
// calls slow.
func runSlowQuery(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	watcher, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Exec(t.Context(), "SELECT pg_sleep(3600)") // the context of t ends the statement
		_ = conn.Close(t.Context())
	}()
	t.Cleanup(func() { <-done })
	until(t, "the statement is slow", func() bool {
		var slow bool
		err := watcher.QueryRow(t.Context(), `SELECT coalesce(bool_or(query_start < now() - interval '1 second'), false) FROM pg_stat_activity
			WHERE pid = $1 AND state = 'active'`, conn.PgConn().PID()).Scan(&slow)
		return err == nil && slow
	})
	require.NoError(t, watcher.Close(t.Context()))
}
