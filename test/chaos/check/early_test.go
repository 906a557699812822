package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

func TestNoMessageIsDeliveredBeforeItsDelay(t *testing.T) {
	t.Parallel()
	delay := func(d time.Duration) func(*run) {
		return func(r *run) { r.op(2).Items[0].Delay = d }
	}
	runBreaches(t, []breach{
		{
			"delivered too early", "early", `"d" at 4 was delivered 7s after its push began, but its delay is 7.1s`, 5,
			delay(7100 * time.Millisecond), delay(7 * time.Second),
		},
		{
			"an answered repetition of a push does not store the message earlier", "early", `"d" at 4 was delivered 7s after`, 5,
			func(r *run) {
				delay(8 * time.Second)(r)
				o := r.add(history.Operation{Kind: history.Push, Outcome: history.Refused, Items: pushed("d")})
				o.Items[0].Delay, o.Begin, o.End = 8*time.Second, 0, time.Second
			},
			func(r *run) { r.op(9).Outcome = history.Unknown; r.op(2).Items[0].Duplicate = true },
		},
	})
}

// delayed is a run in which the push of e ends at 17 s. A pop waits from 15 s to 25 s and returns empty.
func delayed(r *run) {
	endLeases(r)
	wait(15, 25)(r)
}

func TestDelayedMessagesAreNotReady(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"ready for longer than the bound", "stuck", "ready and unleased for 2.1s of this time", 10,
			after(delayed, func(r *run) { r.op(9).Items[0].Delay = 5900 * time.Millisecond }),
			func(r *run) { r.op(9).Items[0].Delay = 6 * time.Second },
		},
		{
			"a delayed message blocks the messages after it", "stuck", "ready and unleased for 8s of this time", 10,
			func(r *run) {
				delayed(r)
				r.op(9).Items = pushed("e", "f")
				r.part().Log, r.part().LastSeq = logOf("a", "b", "c", "d", "e", "f"), 6
				r.op(11).Items = delivered("e", "f")
				r.cursor().Committed, r.cursor().Consumed = 6, 6
				r.op(9).Items[1].Delay = 10 * time.Second // f is after e, and e is ready
			},
			func(r *run) { r.op(9).Items[0].Delay, r.op(9).Items[1].Delay = 10*time.Second, 0 },
		},
		{
			"delivered late to a pop that waited", "stuck", `received "e" at 5 2.5s after the message was ready`, 11,
			func(r *run) {
				delayed(r)
				r.op(10).End = 15 * time.Second
				r.op(11).Wait, r.op(11).Begin, r.op(11).End = time.Minute, 10*time.Second, 24500*time.Millisecond
				r.op(9).Items[0].Delay = 5 * time.Second
			},
			func(r *run) { r.op(9).Items[0].Delay = 6 * time.Second },
		},
	})
}
