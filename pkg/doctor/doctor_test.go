package doctor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/doctor"
	"github.com/belfry-mq/belfry/pkg/secret"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func examine(t *testing.T, url string) doctor.Report {
	t.Helper()
	return doctor.New(doctor.Config{URL: secret.Secret(url), NoServer: "none", Now: time.Now, Limits: doctor.DefaultLimits()}).Run(t.Context())
}

// Without a database each check still has a finding, and only the connection is wrong.
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

// In a database without the schema, the checks that read it are unknown, and the others are not.
func TestADatabaseWithoutTheSchema(t *testing.T) {
	t.Parallel()
	found := map[string]doctor.Finding{}
	for _, f := range examine(t, pgtest.DatabaseWithoutSchema(t)).Checks {
		found[f.Code] = f
	}
	require.Equal(t, doctor.Wrong, found["schema_version"].Result)
	require.Equal(t, doctor.Unknown, found["sequencer"].Result)
	require.Contains(t, found["sequencer"].Found, "belfry.inbox")
	require.Equal(t, doctor.OK, found["listen"].Result)
}
