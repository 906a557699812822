package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two cycles of one query in one partition must never run at the same time. They lock a row in a table that other roles
// cannot lock; see TestLocksOfRolesDelayNoStatement.
func TestACycleWaitsForAnotherOneOfItsPartition(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	query := c.register(object{"name": "sum", "source_queue": "q", "config_hash": "1"}).ok(http.StatusOK).QueryID
	partition := c.pushIDs("q", "p", "1")[0].PartitionID
	body := object{"query_id": query, "partition_id": partition, "state_ops": []object{upsert("a", 1)}}
	require.True(t, c.cycle(body).Success)
	other := producer(t, c.dsn)
	execute(t, other, `BEGIN`)
	execute(t, other, `SELECT FROM belfry.stream_cycle FOR UPDATE`)
	done := make(chan cycled, 1)
	go func() { done <- c.cycle(body) }()
	until(t, "the cycle waits", func() (waits bool) {
		c.scan(t, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`, []any{other.PgConn().PID()}, &waits)
		return waits
	})
	execute(t, other, `ROLLBACK`)
	require.True(t, (<-done).Success)
}
