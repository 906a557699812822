package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func bound(n int) func(*dispatch.Config) { return func(c *dispatch.Config) { c.MaxIntentions = n } }

func TestOneBeyondTheBoundIsToldToComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(&fakeStore{}, bound(3))
		ctx, cancel := context.WithCancel(t.Context())
		first := start(ctx, d, time.Minute)
		others := []<-chan answer{start(t.Context(), d, time.Minute), start(t.Context(), d, time.Minute)}
		synctest.Wait()
		require.Equal(t, 3, d.Waiting())

		a := settled(t, start(t.Context(), d, time.Minute))
		require.Equal(t, queue.CodeOverloaded, queue.CodeOf(a.err))
		require.ErrorContains(t, a.err, "dispatch.max_intentions")
		var coded *queue.Error
		require.ErrorAs(t, a.err, &coded)
		require.Positive(t, coded.RetryAfter)
		require.Equal(t, 3, d.Waiting(), "the refused one is not counted")
		require.NoError(t, settled(t, start(t.Context(), d, 0)).err, "who does not wait is not refused")

		cancel()
		require.ErrorIs(t, settled(t, first).err, context.Canceled)
		again := start(t.Context(), d, time.Minute)
		pending(t, again)
		require.Equal(t, 3, d.Waiting(), "a free place is taken again")

		for _, out := range append(others, again) {
			a := <-out
			require.NoError(t, a.err)
			require.Equal(t, time.Minute-250*time.Millisecond, a.took, "the others waited undisturbed")
		}
		require.Zero(t, d.Waiting())
	})
}

func TestRequestThatFindsSomethingNeedsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lease := queue.NewID()
		store := &fakeStore{pop: func(_ context.Context, _ *queue.PopRequest, look int) (queue.Delivery, error) {
			if look == 2 {
				return delivery(lease), nil
			}
			return queue.Delivery{}, nil
		}}
		d := dispatcher(store, bound(1), func(c *dispatch.Config) { c.PollInterval, c.MaxPollInterval = time.Second, time.Second })
		ctx, cancel := context.WithCancel(t.Context())
		waiting := start(ctx, d, time.Minute)
		pending(t, waiting)
		a := settled(t, start(t.Context(), d, time.Minute))
		require.NoError(t, a.err)
		require.Equal(t, lease, a.LeaseID)
		cancel()
		require.ErrorIs(t, settled(t, waiting).err, context.Canceled)
	})
}

func TestBoundHoldsWhenManyComeAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(&fakeStore{}, bound(10))
		var outs []<-chan answer
		for range 100 {
			outs = append(outs, start(t.Context(), d, time.Second))
		}
		synctest.Wait()
		require.Equal(t, 10, d.Waiting())
		var waited, refused int
		for _, out := range outs {
			switch a := <-out; {
			case a.err == nil:
				require.Equal(t, 950*time.Millisecond, a.took)
				waited++
			case queue.CodeOf(a.err) == queue.CodeOverloaded:
				refused++
			default:
				require.NoError(t, a.err)
			}
		}
		require.Equal(t, 10, waited)
		require.Equal(t, 90, refused)
		require.Zero(t, d.Waiting())
	})
}

func TestDefaultConfigIsValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, dispatch.DefaultConfig().Validate())
}

func TestEveryWrongValueOfTheConfigIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	err := dispatch.Config{MaxPollInterval: -1}.Validate()
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, err, &joined)
	require.Len(t, joined.Unwrap(), 5)
	for _, key := range []string{"max_intentions", "poll_interval", "max_poll_interval", "backoff_threshold", "backoff_multiplier"} {
		require.ErrorContains(t, err, "dispatch."+key+" is ")
	}
}

func TestLongestIntervalMayNotBeBelowTheFirst(t *testing.T) {
	t.Parallel()
	cfg := dispatch.DefaultConfig()
	cfg.MaxPollInterval = cfg.PollInterval
	require.NoError(t, cfg.Validate())
	cfg.MaxPollInterval--
	require.ErrorContains(t, cfg.Validate(), "must not be below dispatch.poll_interval")
}
