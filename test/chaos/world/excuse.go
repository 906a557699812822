package world

import (
	"math"
	"time"
)

const (
	// always means that until the recovery Postgres is unavailable, or deliveries cannot reach their consumers.
	always = time.Duration(math.MaxInt64)
	// healPause is the minimum pause between two scans for partitions whose wake a lost connection prevented.
	// longestPoll is the poll interval of a server whose listener is not proven.
	healPause   = time.Second
	longestPoll = 2 * time.Second
)

// excuses has, for each fault, the maximum wait of a ready message for a waiting consumer. The values follow from the
// settings of the servers (server.go). README.md explains them. All other faults have no excuse: clients with broken
// connections use another server, a stopping server informs the other servers, and snapshots and clocks delay
// nothing.
var excuses = map[string]time.Duration{
	// Postgres is unavailable or commits nothing.
	"kill-postgres": always, "stop-postgres": always, "stall-commits": always, "exhaust-connections": always,
	failsOver: always, stopsStandby: always, loses: always, fillsDisk: always,
	// Answers arrive only after the network works again, or a server has no connection to Postgres.
	"freeze-clients": always, "freeze-database": always,
	// A killed server does not announce its last commits. The other servers resync after peerTimeout.
	"kill-server": peerTimeout,
	// The server repeats the request, and the healing scan wakes partitions whose wake did not run.
	"end-sessions": healPause + requestTimeout, "end-sequencer": healPause + requestTimeout, "cut-database": healPause + requestTimeout, "lose-commits": healPause + requestTimeout,
	// The first request times out. Requests that waited for its connection may also time out. Its locks are held for
	// the same time, and a connection of the pool is held 1 s longer.
	"silence-database": 2*requestTimeout + healPause,
	"slow-database":    requestTimeout,
	// The server must notice that its listener is broken. Then it polls.
	"end-listeners": longestPoll, "cut-listener": longestPoll, "slow-listener": longestPoll,
	"freeze-listener":    canaryInterval + canaryTimeout + longestPoll,
	"silence-listener":   canaryInterval + canaryTimeout + longestPoll,
	"lose-notifications": canaryInterval + canaryTimeout + longestPoll,
}

// sqlAllowances has the additional waits of consumers in SQL. If a client over HTTP reaches no server, it uses
// another one. A consumer in SQL does not know that no running server can wake it.
var sqlAllowances = map[string]time.Duration{"kill-server": always, "stop-server": always}

// addExcuses returns the excuse of two faults at the same time.
func addExcuses(a, b time.Duration) time.Duration {
	if a > always-b {
		return always
	}
	return a + b
}
