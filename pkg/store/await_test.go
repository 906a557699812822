package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// await polls until the condition holds; the deadline only bounds a failure.
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
			require.FailNow(t, "waited in vain for "+what)
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
