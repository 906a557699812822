package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// await polls until the condition holds. It fails the test after 30 s.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			require.FailNow(t, "timed out waiting for "+what)
		}
	}
}

// awaitLockWait returns once a session of this database waits for a lock.
func awaitLockWait(t testing.TB, b *bench) {
	t.Helper()
	await(t, "a session that waits for a lock", func() bool {
		var n int
		b.scan(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &n)
		return n > 0
	})
}
