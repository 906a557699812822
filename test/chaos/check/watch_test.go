package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
)

func TestWatchSeesLeasesComeAndGo(t *testing.T) {
	t.Parallel()
	pool := database(t)
	_, err := pool.Exec(t.Context(), fillTables)
	require.NoError(t, err)
	require.NoError(t, check.Watch(t.Context(), pool))
	const a, b, c = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b", "00000000-0000-0000-0000-00000000000c"
	change := func(statement string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), "UPDATE belfry.cursor c SET "+statement+` FROM belfry.partition p, belfry.queue q
			WHERE p.id = c.partition_id AND q.id = p.queue_id AND p.name = 'p2' AND q.name = 'q' AND q.deleted_at IS NULL`, args...)
		require.NoError(t, err)
	}
	change("attempts = 7") // no lease
	change("lease_id = $1, lease_until = now() + interval '1 hour'", a)
	change("lease_until = now() + interval '2 hours'")      // extended
	change("lease_id = NULL, lease_until = NULL")           // released
	change("lease_id = $1, lease_until = '2100-01-01Z'", b) // given
	change("lease_id = $1, lease_until = '2100-01-02Z'", c) // given while b is alive
	change("lease_until = '2100-01-03Z', consumed = 1")     // extended
	tenures, _, err := check.ReadTenures(t.Context(), pool, []string{"q"}, time.Now())
	require.NoError(t, err)
	require.Len(t, tenures, 3)
	for i, lease := range []string{a, b, c} {
		require.Equal(t, lease, tenures[i].LeaseID)
		require.Equal(t, []string{"q", "p2", "g"}, []string{tenures[i].Queue, tenures[i].Partition, tenures[i].Group})
	}
	require.Less(t, tenures[0].Until.Sub(tenures[0].From), time.Hour, "it was released")
	require.Equal(t, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), tenures[1].Until.UTC())
	require.Equal(t, time.Date(2100, 1, 3, 0, 0, 0, 0, time.UTC), tenures[2].Until.UTC())

	found := check.Run(nil, check.State{Tenures: tenures}, check.Options{})
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, c+" was given")

	_, err = pool.Exec(t.Context(), "DROP TABLE chaos.lease_change CASCADE")
	require.NoError(t, err)
	_, _, err = check.ReadTenures(t.Context(), pool, []string{"q"}, time.Now())
	require.ErrorContains(t, err, "reading changes of leases")
	require.ErrorContains(t, check.Watch(t.Context(), pool), "watching leases")
}
