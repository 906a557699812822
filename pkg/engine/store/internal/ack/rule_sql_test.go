package ack

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// table is a database with one cursor and its messages.
type table struct {
	conn      *pgx.Conn
	partition *queue.Partition
}

func newTable(t *testing.T) *table {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	_, err = conn.Exec(t.Context(), `
		SELECT belfry.open_partitions('{q}', '{p}', 300, 3);
		SELECT belfry.join_in_transaction('q', 'g', NULL, 'all', NULL);
		INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, s, now(), gen_random_uuid(), 't' || s, '{}' FROM belfry.partition p, generate_series(1, 12) AS s;
		INSERT INTO belfry.group_limit (queue_id, group_name, on_exhausted) SELECT q.id, m, m FROM belfry.queue q, unnest(ARRAY['block', 'skip']) AS m;
		UPDATE belfry.partition SET last_seq = 12, last_push_at = now()`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	p := &queue.Partition{Queue: "q", Name: "p"}
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT id, uid FROM belfry.partition`).Scan(&p.Key, (*[16]byte)(&p.ID)))
	return &table{conn: conn, partition: p}
}

// drawCalls draws the acks of several calls. The seq of a message may be unknown.
func drawCalls(t *rapid.T, p *queue.Partition) (calls []*Call, entries [][]ackEntry) {
	for range rapid.IntRange(1, 3).Draw(t, "calls") {
		own := drawEntries(t)
		if rapid.Bool().Draw(t, "completed alike") {
			for i := range own {
				own[i].status, own[i].lease = queue.AckCompleted, own[0].lease
			}
		}
		call := NewCall(make([]queue.AckItem, len(own)))
		for i, e := range own {
			call.Items[i] = queue.AckItem{TransactionID: fmt.Sprint("t", e.seq), Group: "g", LeaseID: e.lease, Status: e.status}
			call.Partitions[i] = p
			call.Found = append(call.Found, i)
			if rapid.IntRange(0, 4).Draw(t, "unknown") > 0 {
				call.Seqs[i] = e.seq
				call.ofLog[i] = e.lease != "" && rapid.Bool().Draw(t, "of the log") // the cache finds messages by their lease
			}
		}
		calls, entries = append(calls, call), append(entries, own)
	}
	return calls, entries
}

// want is the result of the model.
type want struct {
	cursor  modelCursor
	results [][]queue.AckResult
	dead    map[int64]int32
}

func model(state cursorState, entries [][]ackEntry) want {
	w := want{cursor: modelCursor{state: state}, dead: map[int64]int32{}}
	for _, own := range entries {
		change, verdicts := decideAck(w.cursor.state, own)
		live := w.cursor.state.leaseLive
		results := make([]queue.AckResult, len(own))
		for i, v := range verdicts {
			results[i] = queue.AckResult{
				Queue: "q", Partition: "p", Success: v.success, Error: v.err, Resolved: v.success, DeadLettered: v.dead, LeaseReleased: !live || change.release, Exhausted: v.exhausted,
			}
			if _, parked := w.dead[own[i].seq]; v.park && !parked {
				w.dead[own[i].seq] = v.failures
			}
		}
		w.results = append(w.results, results)
		w.cursor.follow(change)
	}
	return w
}

// set writes the state into the cursor.
func (b *table) set(ctx context.Context, t require.TestingT, tx pgx.Tx, state cursorState) {
	lease := pgtype.UUID{}
	if state.leaseID != "" {
		id, err := queue.ParseID(state.leaseID)
		require.NoError(t, err)
		lease = pgtype.UUID{Bytes: id, Valid: true}
	}
	_, err := tx.Exec(ctx, `UPDATE belfry.cursor SET committed = $1, skip = (SELECT range_agg(int8range(s, s + 1)) FROM unnest($2::bigint[]) AS s), failures = $3, attempts = $4, lease_id = $5,
		lease_until = CASE WHEN $5::uuid IS NOT NULL THEN now() + CASE WHEN $6 THEN interval '1 hour' ELSE interval '-1 hour' END END,
		lease_end = CASE WHEN $5::uuid IS NOT NULL THEN $7::bigint END, ready_at = now(), consumed = 0, retry_at = CASE WHEN $8 THEN belfry.blocked() END`,
		state.committed, append([]int64{}, state.skip...), state.failures, state.attempts, lease, state.leaseLive, state.leaseEnd, state.blocked)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `UPDATE belfry.consumer_group SET limits_id = (SELECT id FROM belfry.group_limit WHERE on_exhausted = $1)`, state.onExhausted)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `UPDATE belfry.queue SET retry_limit = $1, retry_delay = $2, retry_backoff = 2, retry_delay_max = 3600000`, state.retryLimit, state.retryBackoff.Milliseconds())
	require.NoError(t, err)
}

// The model in Go and belfry.apply_acks return the same answers and make the same change of the
// cursor.
func TestTheRulesInSQLAreTheModel(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		state := drawState(t)
		calls, entries := drawCalls(t, b.partition)
		expected := model(state, entries)

		tx, err := b.conn.Begin(ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(ctx)) }()
		b.set(ctx, t, tx, state)
		f := NewFlush(calls)
		f.Patience = LockPatience
		send := func(queue func(*pgx.Batch), read func(pgx.BatchResults) error) {
			batch := &pgx.Batch{}
			queue(batch)
			results := tx.SendBatch(ctx, batch)
			require.NoError(t, read(results))
			require.NoError(t, results.Close())
		}
		if f.NeedsFind() {
			send(f.QueueFind, f.ReadFind)
		}
		send(f.Queue, f.Read)

		for i, call := range calls {
			require.Equal(t, expected.results[i], call.Results, "call %d", i)
		}
		var got cursorState
		var retryIn pgtype.Float8
		var consumed int64
		require.NoError(t, tx.QueryRow(ctx, `SELECT committed, ARRAY (SELECT generate_series(lower(s), upper(s) - 1) FROM unnest(skip) AS s), failures, attempts, lease_id IS NOT NULL AND lease_until > now(), consumed,
			extract(epoch FROM retry_at - clock_timestamp())::float8, coalesce(retry_at = belfry.blocked(), false) FROM belfry.cursor`).
			Scan(&got.committed, &got.skip, &got.failures, &got.attempts, &got.leaseLive, &consumed, &retryIn, &got.blocked))
		final := expected.cursor
		require.Equal(t, final.state.committed, got.committed)
		require.ElementsMatch(t, final.state.skip, got.skip)
		require.Equal(t, final.state.failures, got.failures)
		require.Equal(t, final.state.attempts, got.attempts)
		require.Equal(t, final.state.leaseLive, got.leaseLive)
		require.Equal(t, final.change.done, consumed)
		require.Equal(t, final.state.blocked, got.blocked)
		require.Equal(t, final.change.retryDelay > 0 || got.blocked, retryIn.Valid)
		if retryIn.Valid && !got.blocked {
			require.InEpsilon(t, final.change.retryDelay.Seconds(), retryIn.Float64, retryJitter+0.1)
		}
		rows, err := tx.Query(ctx, `SELECT seq, attempts FROM belfry.dead_letter`)
		require.NoError(t, err)
		dead := map[int64]int32{}
		var seq int64
		var attempts int32
		_, err = pgx.ForEachRow(rows, []any{&seq, &attempts}, func() error { dead[seq] = attempts; return nil })
		require.NoError(t, err)
		require.Equal(t, expected.dead, dead)
	})
}
