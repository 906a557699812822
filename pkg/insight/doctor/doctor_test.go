package doctor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func examine(t *testing.T, url string) api.Examination {
	t.Helper()
	return doctor.New(doctor.Config{URL: setting.Secret(url), NoServer: "none", Now: time.Now, Limits: doctor.DefaultLimits()}).Run(t.Context())
}

// Without a database, every check gives a finding. Only database_connection is wrong; the other checks are unknown.
func TestEachCheckHasAFindingWithoutADatabase(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://nobody:hidden@127.0.0.1:1/none", "postgres://nobody:hidden@127.0.0.1:x/none"} {
		report := examine(t, url)
		require.False(t, report.Healthy)
		var codes []string
		for _, f := range report.Checks {
			want := doctor.Unknown
			if f.Code == "database_connection" {
				want = doctor.Wrong
			}
			require.Equal(t, want, f.Result, "%+v", f)
			require.NotContains(t, f.Found, "hidden")
			require.NotEmpty(t, f.Why)
			codes = append(codes, f.Code)
		}
		require.Equal(t, doctor.Codes(), codes)
		slices.Sort(codes)
		require.Equal(t, codes, slices.Compact(codes))
	}
}

// In a database without the schema belfry, the checks that read its tables are unknown. The other checks work.
func TestADatabaseWithoutTheSchema(t *testing.T) {
	t.Parallel()
	found := map[string]api.Finding{}
	for _, f := range examine(t, pgtest.DatabaseWithoutSchema(t)).Checks {
		found[f.Code] = f
	}
	require.Equal(t, doctor.Wrong, found["schema_version"].Result)
	require.Equal(t, doctor.Unknown, found["sequencer"].Result)
	require.Contains(t, found["sequencer"].Found, "belfry.inbox")
	require.Equal(t, doctor.OK, found["listen"].Result)
}

// The check shows the size, age and retention of rows that every group has passed. Many rows without retention are a
// warning that names the setting. A row that some group has not passed, or that no group reads, does not count.
func TestRowsThatEveryGroupHasPassed(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	run := func(statement string) {
		enginetest.Exec(t, conn, statement)
	}
	finding := func(retention time.Duration) api.Finding {
		cfg := doctor.Config{URL: setting.Secret(dsn), NoServer: "none", Now: time.Now, Limits: doctor.DefaultLimits(), Retention: retention}
		cfg.Limits.CompletedRows = 2
		for _, f := range doctor.New(cfg).Run(t.Context()).Checks {
			if f.Code == "completed_rows" {
				return f
			}
		}
		return api.Finding{}
	}
	run(`INSERT INTO belfry.queue (name) VALUES ('orders'), ('unread')`)
	run(`INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, 'Default', 3 FROM belfry.queue q`)
	run(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, n, now() - interval '2 days', gen_random_uuid(), n::text, '{}' FROM belfry.partition p, generate_series(1, 3) n`)
	require.Equal(t, doctor.OK, finding(0).Result)
	run(`INSERT INTO belfry.consumer_group (queue_id, name) SELECT q.id, n FROM belfry.queue q, unnest('{fast,slow}'::text[]) n WHERE q.name = 'orders'`)
	run(`INSERT INTO belfry.cursor (partition_id, group_id, committed)
		SELECT p.id, g.id, CASE g.name WHEN 'fast' THEN 3 ELSE 2 END FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id`)
	got := finding(0)
	require.Equal(t, doctor.Warning, got.Result, got.Found)
	require.Regexp(t, `queue "orders" has 2 \(about .*\), the oldest pushed 48h0m\ds ago, and keeps them for ever\.$`, got.Found)
	require.Contains(t, got.Do[0], "retention.completed")
	got = finding(168 * time.Hour)
	require.Equal(t, doctor.OK, got.Result, got.Found)
	require.Contains(t, got.Found, "keeps them for 168h0m0s")
}
