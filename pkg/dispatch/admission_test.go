package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// crowd is a set of requests of one caller in one group.
type crowd struct {
	t    *testing.T
	outs []<-chan answer
	// refused and displaced count the refused and the displaced requests.
	refused, displaced int
}

// crowd begins n waiting requests of a caller in a group, one after the other.
func (b *harness) crowd(n int, caller, group string) *crowd {
	b.t.Helper()
	c := &crowd{t: b.t}
	for range n {
		req := request(time.Hour)
		req.Caller, req.Group = caller, group
		c.outs = append(c.outs, b.begin(b.t.Context(), req))
		synctest.Wait()
	}
	return c
}

// waiting returns how many requests of the crowd still wait. It first waits until refused requests have their answer.
func (c *crowd) waiting() int {
	c.t.Helper()
	<-time.After(2 * time.Second)
	synctest.Wait()
	var waiting []<-chan answer
	for _, out := range c.outs {
		select {
		case a := <-out:
			require.Empty(c.t, a.Messages)
			if a.err == nil {
				require.True(c.t, a.Displaced)
				c.displaced++
			} else {
				require.Equal(c.t, queue.CodeOverloaded, queue.CodeOf(a.err))
				c.refused++
			}
		default:
			waiting = append(waiting, out)
		}
	}
	c.outs = waiting
	return len(waiting)
}

// A single caller may use the whole limit, for example when many clients use one proxy.
func TestOneCallerAloneMayUseEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		fleet := b.crowd(130, "proxy", "g")
		require.Equal(t, 100, fleet.waiting())
		require.Equal(t, 30, fleet.refused)
		require.InDelta(t, 30, b.labelled("belfry_dispatch_refused_total", "full"), 0)
	})
}

// When another caller arrives at the limit, both callers get their shares, also if they use the same group.
func TestOneCallerCannotKeepOthersOut(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"g", "h"} {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, &fakeStore{}, bound(90))
			first := b.crowd(100, "a", "g")
			require.Equal(t, 90, first.waiting())
			second := b.crowd(100, "b", group)
			require.Equal(t, 45, second.waiting())
			require.Equal(t, 45, first.waiting())
			require.Equal(t, 45, first.displaced)
			require.InDelta(t, 55, b.labelled("belfry_dispatch_refused_total", "caller"), 0)

			third := b.crowd(100, "c", group)
			require.Equal(t, []int{30, 30, 30}, []int{first.waiting(), second.waiting(), third.waiting()})
			again := b.crowd(100, "a", "g")
			require.Zero(t, again.waiting(), "a caller with its share displaces no request")
			require.Equal(t, 90, b.Waiting())
		})
	}
}

// Shares apply only at the limit.
func TestCallersThatDoNotCompeteHaveNoShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		other := b.crowd(1, "b", "g")
		fleet := b.crowd(99, "a", "g")
		require.Equal(t, 99, fleet.waiting())
		require.Equal(t, 1, other.waiting())
	})
}

// A displaced request consumes no message. Each of the other requests gets a message.
func TestMessagesAfterADisplacement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(10))
		b.crowd(10, "a", "g")
		second := b.crowd(5, "b", "g")
		require.Equal(t, 5, second.waiting())
		for p := range int64(10) {
			if p%2 == 1 {
				b.ready(1, p, 1)
				synctest.Wait()
				continue
			}
			offers := b.intents.Handoffs("orders", fmt.Sprint(p))
			require.Len(t, offers, 1)
			b.store.put(1, p, 1, 0)
			b.store.mu.Lock()
			d := b.store.takeLocked(offers[0].Request, offers[0].Target)
			b.store.mu.Unlock()
			require.True(t, offers[0].Take(d))
			synctest.Wait()
		}
		require.Zero(t, b.Waiting(), "each of the ten requests got a message")
	})
}

// A group with more callers than the limit cannot keep other groups out.
func TestOneGroupCannotKeepOthersOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		for i := range 100 {
			b.crowd(1, fmt.Sprint(i), "g")
		}
		require.Equal(t, 100, b.Waiting())
		more := b.crowd(1, "more", "g")
		require.Zero(t, more.waiting())
		for i := range 60 {
			b.crowd(1, fmt.Sprint("h", i), "h")
		}
		for _, group := range b.WaitingGroups() {
			require.Equal(t, 50, group.Waiting, group.Group)
		}
	})
}

// One group of a caller cannot keep the other groups of the same caller out.
func TestOneGroupOfACallerCannotKeepTheOthersOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		first := b.crowd(150, "proxy", "g")
		second := b.crowd(150, "proxy", "h")
		require.Equal(t, []int{50, 50}, []int{first.waiting(), second.waiting()})
		require.InDelta(t, 100, b.labelled("belfry_dispatch_refused_total", "group"), 0)
		require.Equal(t, 50, b.crowd(100, "b", "g").waiting(), "another caller gets its share of the limit")
	})
}

// The share of a caller does not shrink if another caller uses many groups.
func TestInventedGroupsDoNotTakeTheShareOfACaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		for i := range 100 {
			b.crowd(1, "a", fmt.Sprint(i))
		}
		require.Equal(t, 50, b.crowd(60, "b", "h").waiting())
	})
}

// A new request displaces a request of the caller with the most requests, also if more callers are above their shares.
func TestTheLargestCallerIsDisplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		large, small := b.crowd(60, "a", "g"), b.crowd(40, "b", "g")
		require.Equal(t, 20, b.crowd(20, "c", "g").waiting())
		require.Equal(t, []int{40, 40}, []int{large.waiting(), small.waiting()})
		require.Equal(t, 10, b.crowd(10, "c", "g").waiting())
		require.Equal(t, []int{35, 35}, []int{large.waiting(), small.waiting()})
	})
}

// Requests that have ended no longer count.
func TestEndedRequestsFreeTheirShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		b.crowd(90, "a", "g")
		b.crowd(90, "b", "g")
		require.Equal(t, 100, b.Waiting())
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Zero(t, b.Waiting())
		require.Equal(t, 100, b.crowd(110, "a", "g").waiting())
	})
}

// Refused clients get different values of Retry-After, so they do not all return in the same second.
func TestRefusedRequestsComeBackAtDifferentTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(1))
		b.wait()
		delays := map[time.Duration]bool{}
		for range 100 {
			var coded *queue.Error
			require.ErrorAs(t, (<-b.begin(t.Context(), request(time.Hour))).err, &coded)
			delays[coded.RetryAfter] = true
		}
		require.Equal(t, map[time.Duration]bool{time.Second: true, 2 * time.Second: true, 3 * time.Second: true}, delays)
	})
}

// A client that ignores Retry-After and asks again at once gets about one answer a second. Its requests do not reach the store.
func TestRefusalIsDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(1))
		b.wait()
		looks, times := b.store.looks(), map[time.Duration]bool{}
		for range 20 {
			a := <-b.begin(t.Context(), request(time.Hour))
			require.Equal(t, queue.CodeOverloaded, queue.CodeOf(a.err))
			require.InDelta(t, time.Second, a.took, float64(time.Second/4))
			times[a.took] = true
		}
		require.Greater(t, len(times), 10, "the times differ")
		short := <-b.begin(t.Context(), request(time.Millisecond))
		require.Equal(t, time.Millisecond, short.took, "the delay is not longer than the wait of the request")
		require.Equal(t, queue.CodeOverloaded, queue.CodeOf(short.err))
		require.Equal(t, looks, b.store.looks())
	})
}

// At most a tenth of dispatch.max_intentions refusals are delayed. Further requests are refused at once.
func TestDelayedRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(50))
		b.crowd(50, "a", "g")
		held := b.crowd(5, "a", "g")
		for _, out := range held.outs {
			pending(t, out)
		}
		over := answered(t, b.crowd(1, "a", "g").outs[0])
		require.Equal(t, queue.CodeOverloaded, queue.CodeOf(over.err))
		require.Zero(t, over.took)
		require.Zero(t, held.waiting())
	})
}

func TestDelayedRefusalEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(b *harness, leave context.CancelFunc)
		want func(t *testing.T, err error)
	}{
		"when the client leaves": {
			func(_ *harness, leave context.CancelFunc) { leave() },
			func(t *testing.T, err error) { require.ErrorIs(t, err, context.Canceled) },
		},
		"at the stop": {
			func(b *harness, _ context.CancelFunc) { b.Stop() },
			func(t *testing.T, err error) { require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{}, bound(1))
				b.wait()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				out := b.begin(ctx, request(time.Hour))
				pending(t, out)
				c.end(b, leave)
				a := answered(t, out)
				require.Zero(t, a.took)
				c.want(t, a.err)
			})
		})
	}
}
