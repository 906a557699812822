package quota

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// measured is a queue in memory.
type measured struct {
	limit, depth int64
	took         time.Duration
	unread       bool
	err          error
	calls        int
}

func (m *measured) measure(ctx context.Context, _ int64) (Depth, error) {
	m.calls++
	select {
	case <-time.After(max(m.took, time.Millisecond)):
	case <-ctx.Done():
	}
	return Depth{m.limit, m.depth, m.unread}, m.err
}

func demand(n int64) []Demand { return []Demand{{QueueKey: 1, Queue: "q", Messages: n}} }

func TestAdmissionsCountUntilTheNextMeasurement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &measured{limit: 5, depth: 2}
		q := New(m.measure)
		first, err := q.Admit(t.Context(), demand(2))
		require.NoError(t, err)
		_, err = q.Admit(t.Context(), demand(2))
		require.Equal(t, queue.CodeQueueFull, queue.CodeOf(err))
		some, err := q.AdmitSome(t.Context(), demand(3))
		require.NoError(t, err)
		require.Equal(t, map[int64]int64{1: 1}, some.Granted())
		none, err := q.AdmitSome(t.Context(), demand(3))
		require.NoError(t, err)
		require.Equal(t, map[int64]int64{1: 0}, none.Granted())
		require.Equal(t, 1, m.calls)

		first.Settle(NotStored)
		_, err = q.Admit(t.Context(), demand(2))
		require.NoError(t, err, "a refused push uses no space in the queue")
		time.Sleep(maxFresh)
		m.depth = 0
		_, err = q.Admit(t.Context(), demand(2))
		require.NoError(t, err)
		require.Equal(t, 2, m.calls)
	})
}

// A push whose outcome is unknown counts as stored, and refuses no push before the queue is measured again.
func TestAnUnknownOutcomeIsMeasuredBeforeARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &measured{limit: 5, unread: true, took: time.Second}
		q := New(m.measure)
		admit := func(n int64, outcome Outcome) error {
			a, err := q.Admit(t.Context(), demand(n))
			a.Settle(outcome)
			return err
		}
		require.NoError(t, admit(4, Unknown))
		require.NoError(t, admit(1, Stored))
		require.Equal(t, 1, m.calls, "the messages fit")
		m.depth = 1
		require.NoError(t, admit(4, Stored), "no message of the first push was stored")
		require.Equal(t, 2, m.calls)
		require.Equal(t, queue.CodeQueueFull, queue.CodeOf(admit(1, Stored)))
		require.Equal(t, 2, m.calls, "the outcomes of all pushes are known now")
	})
}

// A push that fits waits for a new measurement only if the last measurement is older than
// mayBeOlder allows. Messages that were stored before the measurement began count until its end.
func TestAPushThatFitsDoesNotWaitForTheMeasurement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &measured{limit: 6, took: 60 * time.Millisecond}
		q := New(m.measure)
		admit := func(n int64) (took time.Duration, err error) {
			began := time.Now()
			a, err := q.Admit(t.Context(), demand(n))
			a.Settle(Stored)
			return time.Since(began), err
		}
		took, err := admit(4)
		require.NoError(t, err)
		require.Equal(t, m.took, took, "there is no measurement yet")
		m.depth = 6
		time.Sleep(maxFresh)
		for range 2 {
			took, err = admit(1)
			require.NoError(t, err)
			require.Zero(t, took)
		}
		took, err = admit(1)
		require.Equal(t, queue.CodeQueueFull, queue.CodeOf(err))
		require.Equal(t, m.took, took, "a push that does not fit waits")
		require.Equal(t, 2, m.calls)

		m.limit = 100
		time.Sleep(maxFresh + mayBeOlder)
		took, err = admit(1)
		require.NoError(t, err)
		require.Equal(t, m.took, took, "the last measurement is too old")
	})
}

func TestAFailedMeasurementAdmitsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &measured{limit: 5, err: errors.New("no database")}
		q := New(m.measure)
		_, err := q.Admit(t.Context(), demand(1))
		require.ErrorIs(t, err, m.err)
		m.err = nil
		_, err = q.Admit(t.Context(), demand(5))
		require.NoError(t, err)
	})
}

// A queue with many partitions that no group reads is measured rarely: the measurements use a twentieth
// of a connection.
func TestAnUnreadQueueIsMeasuredSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &measured{limit: 1000, took: time.Second, unread: true}
		q := New(m.measure)
		for range 100 {
			admission, err := q.Admit(t.Context(), demand(1))
			require.NoError(t, err)
			admission.Settle(Stored)
			time.Sleep(190 * time.Millisecond)
		}
		require.Equal(t, 1, m.calls)
	})
}

// A measurement that hangs does not delay Close if no push waits for it.
func TestCloseEndsMeasurements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &measured{limit: 5, took: time.Millisecond}
		q := New(m.measure)
		_, err := q.Admit(t.Context(), demand(1))
		require.NoError(t, err)
		time.Sleep(maxFresh + mayBeOlder/2)
		m.took = time.Hour
		_, err = q.Admit(t.Context(), demand(1))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, m.calls)
		began := time.Now()
		q.Close()
		require.Zero(t, time.Since(began))
	})
}
