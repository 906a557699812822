package store_test

import (
	"testing"

	"github.com/belfry-mq/belfry/test/enginetest"
)

// awaitLockWait returns once a session of this database waits for a lock.
func awaitLockWait(t testing.TB, b *bench) {
	t.Helper()
	enginetest.Await(t, "a session that waits for a lock", func() bool {
		var n int
		b.scan(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &n)
		return n > 0
	})
}
