package listen

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

const (
	// createdInterval and createdBurst are the pace of OnCreated, lookInterval and lookBurst that of
	// OnLook. An instance that works seldom sends more.
	createdInterval, createdBurst = 100 * time.Millisecond, 10
	lookInterval, lookBurst       = time.Second, 5
	// garbageLogInterval is the shortest time between two log lines about garbage.
	garbageLogInterval = time.Minute
)

// pacedCall is a callback that notifications of other processes cause, at most at a pace. The call
// comes after the notification was heard, so one call covers everything that was heard before it.
type pacedCall struct {
	call func(reason string)
	// asked brings reasons from the read loop to the watch loop. Only the watch loop uses the rest.
	asked chan string
	pace  backoff.Pace
	// timer fires when the call is due. It runs while reason is not empty.
	timer  *time.Timer
	reason string
}

func newPacedCall(interval time.Duration, burst int, call func(reason string)) *pacedCall {
	return &pacedCall{
		call: call, asked: make(chan string, 1), pace: backoff.Pace{Interval: interval, Burst: burst}, timer: stoppedTimer(),
	}
}

// ask asks the watch loop for the call. It does not block.
func (c *pacedCall) ask(reason string) {
	select {
	case c.asked <- reason:
	default: // the call for the reason in the channel comes later than now
	}
}

// schedule makes the call due as soon as the pace allows.
func (c *pacedCall) schedule(reason string) {
	if c.reason == "" {
		now := time.Now()
		c.timer.Reset(c.pace.Next(now).Sub(now))
	}
	c.reason = reason
}

// due makes the call. The timer has fired.
func (c *pacedCall) due() {
	reason := c.reason
	c.reason = ""
	c.call(reason)
}

// handleGarbage counts a notification that could not be read, logs it, but not each time, and asks for a
// look.
func (r *reader) handleGarbage(err error) {
	r.garbage.Add(1)
	if now := time.Now(); now.Sub(r.garbageLogged) >= garbageLogInterval {
		r.garbageLogged = now
		r.log.Warn("a notification could not be read; every role of the database can send one",
			zap.Int64("garbage_so_far", r.Garbage()), zap.Error(err))
	}
	r.look.ask(fmt.Sprintf("a notification was not understood: %v", err))
}
