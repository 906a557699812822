package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// limitReads counts the scans of the tables of limits in a transaction.
const limitReads = `SELECT sum(seq_scan + coalesce(idx_scan, 0))::bigint FROM pg_stat_xact_user_tables
	WHERE schemaname = 'belfry' AND relname IN ('group_limit', 'limit_slot', 'limit_bucket', 'limit_number')`

// claimIn runs the statement of a claim in a transaction.
func (b *bench) claimIn(tx pgx.Tx, group int64) {
	b.t.Helper()
	enginetest.Exec(b.t, tx, sql.Query("engine/store/claim"), group, nil, int64(1), int64(1), [16]byte(queue.NewID()), nil, nil, true, b.epoch(), nil, true)
}

// A claim and an ack of a group without limits read no table of limits, although another group of the queue has limits.
func TestAGroupWithoutLimitsReadsNoLimits(t *testing.T) {
	b := newBench(t, "limited", "free")
	b.pushEach(9)
	b.limit("concurrency = 5, " + rate(1000, 1e9, 1000))
	b.exec(`UPDATE belfry.consumer_group SET limits_id = NULL WHERE name = 'free'`)
	groups := map[string]int64{}
	for _, name := range []string{"limited", "free"} {
		b.pop(request(name, 1))
		var id int64
		b.scan(`SELECT id FROM belfry.consumer_group WHERE name = $1`, []any{name}, &id)
		groups[name] = id
	}
	reads := func(do func(tx pgx.Tx)) int64 {
		tx := b.begin(b.connect())
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		do(tx)
		return enginetest.Value[int64](t, tx, limitReads)
	}
	var partition int64
	b.scan(`SELECT min(id) FROM belfry.partition WHERE name = 'p0'`, nil, &partition)
	for verb, do := range map[string]func(tx pgx.Tx, group string){
		"claim": func(tx pgx.Tx, group string) { b.claimIn(tx, groups[group]) },
		"SQL":   func(tx pgx.Tx, group string) { b.sqlAck(tx, b.sqlPop(tx, group, 1, 1)[0].Lease, nil, "completed") },
		"ack": func(tx pgx.Tx, group string) {
			enginetest.Exec(t, tx, sql.Query("engine/store/ack_apply"), b.completes(partition, group, 1)...)
		},
	} {
		require.Zero(t, reads(func(tx pgx.Tx) { do(tx, "free") }), verb)
		if verb != "ack" { // no lease covers the message
			require.Positive(t, reads(func(tx pgx.Tx) { do(tx, "limited") }), verb)
		}
	}
}

// While a transaction holds a snapshot, the rows of places and buckets collect old versions. A claim of a limited group
// reads few of them, whether it is refused or not.
func TestALimitedClaimReadsNoOldVersions(t *testing.T) {
	for name, limits := range map[string]string{
		"few places":  "concurrency = 3",
		"many places": "concurrency = 10000",
		"one part":    rate(1_000_000, 1e9, 10),
		"eight parts": rate(1_000_000, 1e9, 1_000_000),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			b.pushEach(9)
			b.keepStatistics()
			for _, table := range []string{"limit_slot", "limit_bucket", "limit_number"} {
				b.exec(`ALTER TABLE belfry.` + table + ` SET (autovacuum_enabled = off)`)
			}
			b.limit(limits)
			b.pop(request("g", 1))
			holder, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			require.NoError(t, err)
			defer func() { _ = holder.Rollback(t.Context()) }()
			enginetest.Exec(t, holder, "SELECT count(*) FROM belfry.cursor")
			var group int64
			b.scan(`SELECT id FROM belfry.consumer_group`, nil, &group)
			conn := b.session()
			_, _ = b.explainClaim(conn, group, nil, 1) // reads the catalog
			before, _ := b.explainClaim(conn, group, nil, 1)
			for range 40 {
				b.exec(`DO $$ BEGIN FOR i IN 1..250 LOOP
					PERFORM belfry.take_slot(c.group_id, 0, l.concurrency, c.partition_id, gen_random_uuid(), clock_timestamp())
					   FROM belfry.group_limit l, (SELECT * FROM belfry.cursor LIMIT 1) c WHERE l.concurrency > 0;
					PERFORM belfry.take_tokens(g.id, 0, l.rate_messages, l.rate_per, l.rate_burst, 1, true)
					   FROM belfry.group_limit l, belfry.consumer_group g WHERE l.rate_messages > 0;
				END LOOP; END $$`)
			}
			after, _ := b.explainClaim(conn, group, nil, 1)
			t.Logf("%d buffers before and %d after 10,000 claims", before, after)
			require.Less(t, after, 100)
		})
	}
}
