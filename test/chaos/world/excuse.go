package world

import (
	"math"
	"time"
)

const (
	// always: until the recovery, Postgres is unavailable for all, or deliveries cannot reach their consumers.
	always = time.Duration(math.MaxInt64)
	// healPause is the shortest pause between two scans for partitions that a lost connection left asleep. longestPoll
	// is the poll interval of a server whose listener is not proven.
	healPause   = time.Second
	longestPoll = 2 * time.Second
)

// excuses are the longest waits of a ready message for a waiting consumer, by the fault that causes them. They follow
// from the settings of the servers (server.go). README.md explains them. Other faults excuse nothing: clients with
// broken connections use another server, a stopping server informs the others, and snapshots and clocks delay nothing.
var excuses = map[string]time.Duration{
	// Postgres is unavailable or commits nothing.
	"kill-postgres": always, "stop-postgres": always, "stall-commits": always, "exhaust-connections": always,
	failsOver: always, stopsStandby: always, loses: always, fillsDisk: always,
	// Answers arrive after the network is thawed, or a server is cut off from Postgres.
	"freeze-clients": always, "freeze-database": always,
	// Nobody announces the last commits of the killed server, until the others miss it.
	"kill-server": peerTimeout,
	// The request is repeated, and sleeping partitions are woken.
	"end-sessions": healPause + requestTimeout, "end-sequencer": healPause + requestTimeout, "cut-database": healPause + requestTimeout, "lose-commits": healPause + requestTimeout,
	// The first request times out, and so may requests that waited for its connection. Locks are held as long, and a
	// connection of the pool one second longer.
	"silence-database": 2*requestTimeout + healPause,
	"slow-database":    requestTimeout,
	// The server must notice that its listener is broken. From then on it polls.
	"end-listeners": longestPoll, "cut-listener": longestPoll, "slow-listener": longestPoll,
	"freeze-listener":    canaryInterval + canaryTimeout + longestPoll,
	"silence-listener":   canaryInterval + canaryTimeout + longestPoll,
	"lose-notifications": canaryInterval + canaryTimeout + longestPoll,
}

// sqlAllowances are the additional waits of consumers in SQL. A client over HTTP that reaches no server uses another
// one. A consumer in SQL does not know that no server runs to wake it.
var sqlAllowances = map[string]time.Duration{"kill-server": always, "stop-server": always}

// addExcuses is the excuse of faults at the same time.
func addExcuses(a, b time.Duration) time.Duration {
	if a > always-b {
		return always
	}
	return a + b
}
