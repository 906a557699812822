package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// crowd begins n waits of a caller in a group, and returns how many may wait.
func (b *harness) crowd(n int, caller, group string) (admitted int) {
	b.t.Helper()
	before := b.Waiting()
	for range n {
		req := request(time.Hour)
		req.Caller, req.Group = caller, group
		out := b.begin(b.t.Context(), req)
		synctest.Wait()
		select {
		case a := <-out:
			require.Equal(b.t, queue.CodeOverloaded, queue.CodeOf(a.err))
		default:
		}
	}
	return b.Waiting() - before
}

// A caller alone may use 80 % of the bound. The rest is for other callers, also of the same group.
func TestOneCallerCannotKeepOthersOut(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"g", "h"} {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, &fakeStore{}, bound(100))
			require.Equal(t, 80, b.crowd(200, "a", "g"))
			require.Equal(t, 10, b.crowd(10, "b", group))
			require.InDelta(t, 120, b.labelled("belfry_dispatch_refused_total", "caller"), 0)
		})
	}
}

// One group with many callers cannot keep other groups out.
func TestOneGroupCannotKeepOthersOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(200))
		for i := range 20 {
			b.crowd(8, fmt.Sprint(i), "g")
		}
		require.Equal(t, 160, b.Waiting())
		for i := range 20 {
			require.Zero(t, b.crowd(1, fmt.Sprint(i), "g"))
		}
		require.Positive(t, b.labelled("belfry_dispatch_refused_total", "group"))
		require.Equal(t, 2, b.crowd(2, "new", "h"))
	})
}

// Many groups of one caller do not make the share of another group small.
func TestInventedGroupsDoNotTakeTheShareOfAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		for i := range 80 {
			b.crowd(1, "a", fmt.Sprint(i))
		}
		require.Equal(t, 10, b.crowd(5, "b", "h")+b.crowd(5, "c", "h"))
	})
}

// Requests that have ended leave nothing in the counts.
func TestEndedRequestsFreeTheirShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(100))
		require.Equal(t, 80, b.crowd(90, "a", "g"))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Zero(t, b.Waiting())
		require.Equal(t, 80, b.crowd(90, "a", "g"))
	})
}

// Refused clients do not all come back in the same second.
func TestRefusedRequestsComeBackAtDifferentTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(1))
		b.wait()
		delays := map[time.Duration]bool{}
		for range 100 {
			var coded *queue.Error
			require.ErrorAs(t, answered(t, b.begin(t.Context(), request(time.Hour))).err, &coded)
			delays[coded.RetryAfter] = true
		}
		require.Equal(t, map[time.Duration]bool{time.Second: true, 2 * time.Second: true, 3 * time.Second: true}, delays)
	})
}
