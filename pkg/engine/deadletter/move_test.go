package deadletter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
)

// A dead letter is deleted exactly when its message is in the inbox for the other queue, in the order of the log. Dead letters
// without a readable message stay. A move that is refused, or only counts, changes nothing.
func TestMovePushesEachMessageOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fill(7)
	exec := func(statement string) {
		_, err := r.pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	read := func(query string) (got []string) {
		rows, err := r.pool.Query(t.Context(), query)
		require.NoError(t, err)
		for rows.Next() {
			var text string
			require.NoError(t, rows.Scan(&text))
			got = append(got, text)
		}
		require.NoError(t, rows.Err())
		return got
	}
	inbox := func() []string {
		return read(`SELECT concat_ws(' ', i.queue, i.partition, i.payload, i.transaction_id, i.trace_id) FROM belfry.inbox i ORDER BY i.id`)
	}
	letters := func() []string {
		return read(`SELECT p.name FROM belfry.dead_letter d JOIN belfry.partition p ON p.id = d.partition_id ORDER BY 1`)
	}
	const all, trace = 7, "0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f"
	exec(`UPDATE belfry.message m SET payload = '{"b" : 1.0}', trace_id = '` + trace + `' WHERE m.transaction_id = 'p1'`)
	exec(`UPDATE belfry.message m SET encrypted = true WHERE m.transaction_id = 'p2'`)
	exec(`DELETE FROM belfry.message m WHERE m.transaction_id = 'p3'`)
	_, err := r.Move(t.Context(), named("q", "g"), "parked", 0, false)
	require.EqualError(t, err, `queue "parked" does not exist: create it first`)
	exec(`INSERT INTO belfry.queue (name) VALUES ('parked')`)
	done, err := r.Move(t.Context(), named("q", "g"), "parked", 0, true)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: all, Remaining: all}, done)
	exec(`UPDATE belfry.queue SET encryption_enabled = true WHERE name = 'q'`)
	_, err = r.Move(t.Context(), named("q", "g"), "parked", 0, false)
	require.ErrorContains(t, err, `queue "q" has encryptionEnabled: its dead letters cannot be moved`)
	exec(`UPDATE belfry.queue SET encryption_enabled = false WHERE name = 'q'`)
	require.Empty(t, inbox())
	require.Len(t, letters(), all)

	tx, err := r.pool.Begin(t.Context()) // another transaction deletes one of them, and gives up
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `DELETE FROM belfry.dead_letter d USING belfry.partition p WHERE p.id = d.partition_id AND p.name = 'p7'`)
	require.NoError(t, err)
	r.Bound(3, time.Minute)
	done, err = r.Move(t.Context(), named("q", "g"), "parked", 0, false)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, deadletter.Result{Matched: all, Taken: 4, Skipped: 3}, done)
	require.Equal(t, []string{`parked p1 {"b" : 1.0} p1 ` + trace, "parked p4 {} p4", "parked p5 {} p5", "parked p6 {} p6"}, inbox())
	require.Equal(t, []string{"p2", "p3", "p7"}, letters())
}
