package audit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func openPool(t *testing.T) *postgres.Pool {
	t.Helper()
	pool := enginetest.Pool(t, pgtest.Database(t))
	return pool
}

// If a request fails after some of its transactions, the row has the committed counts.
func TestFinishKeepsTheCommittedCounts(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	core, logs := observer.New(zap.DebugLevel)
	log := audit.NewLog(pool, zap.New(core))
	ctx := identity.With(t.Context(), &identity.Principal{Subject: "anna", TokenID: "t1"})
	begin := func() *audit.Entry { return audit.New(ctx, pool, audit.SeekGroup, "10.1.2.3", "r1") }

	log.Finish(ctx, begin(), "not_found") // without a call of Begin
	invalid := begin()
	audit.Begin(audit.With(ctx, invalid), audit.Target{Queue: "q"}, nil)
	log.Finish(ctx, invalid, "invalid")
	rows, err := log.List(ctx, audit.Filter{}, audit.Key{}, 10)
	require.NoError(t, err)
	require.Empty(t, rows)

	paged := begin()
	with := audit.With(ctx, paged)
	audit.Begin(with, audit.Target{Queue: "q", Group: "g"}, audit.Parameters{"toEnd": true})
	for _, moved := range []int64{1000, 2000} {
		require.NoError(t, audit.Write(with, pool, audit.Counts{"cursors": moved}))
	}
	log.Finish(with, paged, "unavailable")
	anna, nobody := "anna", "nobody"
	rows, err = log.List(ctx, audit.Filter{Subject: &anna}, audit.Key{}, 10)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, audit.Row{
		Key: audit.Key{At: rows[0].At, ID: paged.ID}, Subject: "anna", TokenID: "t1", Address: "10.1.2.3", RequestID: "r1",
		Action: "group.seek", Target: audit.Target{Queue: "q", Group: "g"}, Parameters: json.RawMessage(`{"toEnd":true}`),
		Counts: json.RawMessage(`{"cursors":2000}`), Result: "unavailable",
	}, rows[0])
	rows, err = log.List(ctx, audit.Filter{Subject: &nobody}, audit.Key{}, 10)
	require.NoError(t, err)
	require.Empty(t, rows)

	require.NoError(t, audit.Write(ctx, nil, audit.Counts{}), "a request without an entry writes no row")

	pool.Close()
	require.Empty(t, logs.All())
	lost := begin()
	audit.Begin(audit.With(ctx, lost), audit.Target{Queue: "q"}, nil)
	log.Finish(ctx, lost, "unavailable")
	require.Len(t, logs.FilterField(zap.String("subject", "anna")).All(), 1, "a row that could not be written is logged")
}

// A list uses the index of its first filter. Every page of a list has the same cost.
func TestListsUseIndexes(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	insert := func(which string) string {
		return `INSERT INTO belfry.audit (id, at, subject, address, request_id, action, queue, consumer_group, parameters, counts, result)
			SELECT gen_random_uuid(), now() - i * interval '1 s', CASE WHEN i % 10000 = 0 THEN 'anna' ELSE 'robot' END, '', '',
				CASE WHEN i % 10000 = 1 THEN 'queue.delete' ELSE 'queue.configure' END, CASE WHEN i % 10000 = 2 THEN 'rare' ELSE 'busy' END,
				CASE WHEN i % 10000 = 3 THEN 'rare' END, '{}', '{}', 'ok' FROM generate_series(1, 50000) i WHERE ` + which
	}
	for _, step := range []struct{ statistics, before string }{
		{"none", insert("i % 10000 > 3")},
		{"without the rare values", "ANALYZE belfry.audit; " + insert("i % 10000 <= 3")},
		{"of all rows", "ANALYZE belfry.audit"},
	} {
		_, err := pool.Exec(t.Context(), step.before, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		for _, filter := range []string{
			"NULL, NULL, NULL, NULL", "'queue.delete', NULL, NULL, NULL", "NULL, 'rare', NULL, NULL", "NULL, NULL, 'rare', NULL",
			"NULL, NULL, NULL, 'anna'",
		} {
			for _, after := range []string{"NULL", "now() - interval '40000 s'"} {
				blocks := reads(t, pool, "access/audit/list", fmt.Sprintf("%s, NULL, NULL, %s, '%s', 20, NULL, 100", filter, after, "00000000-0000-0000-0000-000000000000"))
				require.Less(t, blocks, 200, "filter %s, after %s, statistics %s", filter, after, step.statistics)
			}
		}
		require.Less(t, reads(t, pool, "engine/sweep/audit_trim", "49990, 20"), 200, "statistics %s", step.statistics)
	}
}

// reads returns how many blocks a prepared statement reads. A server prepares the statement too.
func reads(t *testing.T, pool *postgres.Pool, query, args string) int {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "DEALLOCATE ALL", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	_, err = conn.Conn().PgConn().Prepare(t.Context(), "q", sql.Query(query), nil)
	require.NoError(t, err)
	var raw []byte
	require.NoError(t, conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE q ("+args+")",
		pgx.QueryExecModeSimpleProtocol).Scan(&raw))
	var out []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	require.NoError(t, json.Unmarshal(raw, &out))
	require.NotContains(t, string(raw), "Seq Scan", strings.TrimSpace(args))
	return out[0].Plan.Hit + out[0].Plan.Read
}

func TestRetentionIsValidated(t *testing.T) {
	t.Parallel()
	for retention, valid := range map[time.Duration]bool{
		0: true, time.Second: true, 36500 * 24 * time.Hour: true, -time.Hour: false, time.Millisecond: false, 36501 * 24 * time.Hour: false,
	} {
		require.Equal(t, valid, audit.Config{Retention: retention}.Validate() == nil, "%s", retention)
	}
}
