package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// When the rights of a request expire or are revoked, the request is answered at that instant with the reason. The test covers
// everything that a request can wait for. Other requests keep waiting.
func TestAWaitEndsWithTheRights(t *testing.T) {
	t.Parallel()
	absent := func(*queue.PopRequest) (queue.Target, bool, error) { return queue.Target{}, false, nil }
	tagged := request(time.Hour)
	tagged.Queue, tagged.Tags = "", &queue.Tags{Namespace: "n"}
	consuming := request(time.Hour)
	consuming.AutoAck = true
	for name, c := range map[string]struct {
		req    *queue.PopRequest
		store  *fakeStore
		paused bool
	}{
		"a group":             {request(time.Hour), &fakeStore{}, false},
		"a partition":         {specific(time.Hour), &fakeStore{}, false},
		"a name":              {request(time.Hour), &fakeStore{resolve: absent}, false},
		"tags":                {tagged, &fakeStore{pop: popNothing}, false},
		"autoAck":             {consuming, &fakeStore{}, false},
		"the end of a pause":  {request(time.Hour), &fakeStore{}, true},
		"the end of its join": {request(time.Hour), &fakeStore{pop: popJoining}, false},
	} {
		for _, revoked := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store := &fakeStore{resolve: c.store.resolve, pop: c.store.pop}
					b := run(t, store)
					if c.paused {
						ended := make(chan struct{})
						b.paused.Store(&ended)
					}
					req, other := *c.req, *c.req
					began := time.Now()
					if !revoked {
						req.RightsEnd = began.Add(time.Minute)
					}
					revoke := b.revocable(&req)
					b.revocable(&other)
					out, stays := b.begin(t.Context(), &req), b.begin(t.Context(), &other)
					time.Sleep(59 * time.Second)
					pending(t, out)
					if revoked {
						revoke()
					}
					time.Sleep(time.Second)
					a := answered(t, out)
					require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(a.err), "%v", a.err)
					if name != "the end of its join" {
						require.Equal(t, map[bool]time.Duration{true: 59 * time.Second, false: time.Minute}[revoked], a.took)
					}
					pending(t, stays)
				})
			})
		}
	}
}

// popJoining reports after a second that the group still joins its queue.
func popJoining(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return queue.Delivery{}, queue.Joining(req.Queue, req.Group)
}

// Rights may end during a probe, or while a push claims for the request. Then the wait ends as soon as the probe or the claim
// finds nothing.
func TestRightsThatEndBetweenTwoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		req := request(time.Hour)
		var revoke func()
		b := run(t, &fakeStore{onPop: func(*queue.PopRequest) error { revoke(); return nil }})
		revoke = b.revocable(req)
		require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(answered(t, b.begin(t.Context(), req)).err))
	})
	for _, autoAck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := run(t, &fakeStore{})
			req := request(time.Hour)
			req.AutoAck = autoAck
			revoke := b.revocable(req)
			out := b.begin(t.Context(), req)
			pending(t, out)
			offers := b.intents.Handoffs("orders", "1")
			revoke()
			pending(t, out)
			require.False(t, offers[0].Take(queue.Delivery{}))
			require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(answered(t, out).err))
		})
	}
}

// A request was woken for a message, but its rights end before the claim. It wakes another request at once.
func TestAWakeIsForwardedWhenTheRightsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{onPop: func(req *queue.PopRequest) error { return req.Valid() }}
		b := run(t, store)
		req := request(time.Hour)
		revoke := b.revocable(req)
		out := b.begin(t.Context(), req)
		pending(t, out)
		other := b.wait()
		store.change(func(f *fakeStore) {
			f.onClaim = func(assignments []queue.Assignment) error {
				if assignments[0].Request == req {
					revoke()
				}
				return assignments[0].Request.Valid()
			}
		})
		b.ready(1, 1, 1)
		require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(answered(t, out).err))
		require.Zero(t, delivered(t, other).took)
	})
}
