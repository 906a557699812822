package world

import (
	"math"
	"time"
)

const (
	// always: for as long as it is broken and not found to work again, Postgres
	// is away for all, or what is delivered cannot reach its consumer.
	always = time.Duration(math.MaxInt64)
	// healPause is the least time between two looks for what a lost connection has
	// left asleep, and longestPoll that between two looks of a server whose
	// listener is not proven.
	healPause   = time.Second
	longestPoll = 2 * time.Second
)

// excuses are how long a message that is ready may wait for a consumer that waits,
// by the fault that is to blame, at most. They follow from what servers are told
// (see server.go), and the page of this folder tells them. What is not here is no
// excuse: clients whose connections break ask elsewhere, a server that stops tells
// the others, and nobody waits for a snapshot or by a clock that is set.
var excuses = map[string]time.Duration{
	// Postgres is away, or commits nothing.
	"kill-postgres": always, "stop-postgres": always, "stall-commits": always, "exhaust-connections": always,
	failsOver: always, loses: always, fillsDisk: always,
	// Answers arrive when the network is thawed, or a server is cut off from Postgres.
	"freeze-clients": always, "freeze-database": always,
	// Nobody tells what the dead one had just committed: it must be missed first.
	"kill-server": peerTimeout,
	// What ended is repeated, and what was left asleep is woken.
	"end-sessions": healPause + requestTimeout, "end-sequencer": healPause + requestTimeout, "cut-database": healPause + requestTimeout, "lose-commits": healPause + requestTimeout,
	// The first request loses its time, and so may those that had their connection by
	// then; locks are kept as long, and a place in the pool a second more.
	"silence-database": 2*requestTimeout + healPause,
	"slow-database":    requestTimeout,
	// The listener must find out that it hears nothing, and looks from then on.
	"end-listeners": longestPoll, "cut-listener": longestPoll, "slow-listener": longestPoll,
	"freeze-listener":    canaryInterval + canaryTimeout + longestPoll,
	"silence-listener":   canaryInterval + canaryTimeout + longestPoll,
	"lose-notifications": canaryInterval + canaryTimeout + longestPoll,
}

// silences are how much longer a consumer in SQL may wait: a client over HTTP that meets
// no server asks elsewhere, but one in SQL does not know that nobody is there to tell it.
var silences = map[string]time.Duration{"kill-server": always, "stop-server": always}

// together is the excuse of faults that happen at the same time.
func together(a, b time.Duration) time.Duration {
	if a > always-b {
		return always
	}
	return a + b
}
