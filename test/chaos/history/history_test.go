package history_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadReturnsTheWrittenHistory(t *testing.T) {
	t.Parallel()
	want := []history.Operation{
		{
			ID: 1, Client: "c1", Kind: history.Push, Begin: 1, End: 5 * time.Second, Outcome: history.Done, Queue: "q",
			Items: []history.Item{{Partition: "p", TransactionID: "t", MessageID: "m", Duplicate: true}},
		},
		{
			ID: 2, Client: "c2", Kind: history.Pop, Begin: 3, End: 4, Outcome: history.Unknown, Error: "gone",
			Queue: "q", Partition: "p", Group: "g", LeaseID: "l", AutoAck: true, Wait: time.Minute,
		},
		{
			ID: 3, Kind: history.Ack, Outcome: history.Refused,
			Items: []history.Item{{Status: "failed", Accepted: true, DeadLettered: true}},
		},
	}
	file := &bytes.Buffer{}
	require.NoError(t, history.Write(file, want))
	require.Equal(t, len(want), strings.Count(file.String(), "\n"), "each operation is on one line")
	require.Contains(t, file.String(), `"begin":1,"end":5000000000`)
	got, err := history.Read(file)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestReadNamesTheDamagedOperation(t *testing.T) {
	t.Parallel()
	_, err := history.Read(strings.NewReader("{\"id\":1}\n{\"id\":"))
	require.ErrorContains(t, err, "operation 2")
	_, err = history.Read(strings.NewReader(`{"id":1,"begin":"x"}`))
	require.ErrorContains(t, err, "operation 1")
}

func TestTheRecorderIsSafeForManyClients(t *testing.T) {
	t.Parallel()
	const clients, each = 8, 100
	recorder := history.NewRecorder()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				o := recorder.Begin(history.Operation{Kind: history.Pop})
				o.Outcome = history.Done
				recorder.End(o)
			}
		})
	}
	all.Wait()
	operations := recorder.Operations()
	require.Len(t, operations, clients*each)
	for i, o := range operations {
		require.Equal(t, int64(i+1), o.ID)
		require.LessOrEqual(t, o.Begin, o.End)
		require.Equal(t, history.Done, o.Outcome)
	}
	require.True(t, slices.IsSortedFunc(operations, func(a, b history.Operation) int { return int(a.Begin - b.Begin) }),
		"IDs ascend with the begin of the operations")
	require.GreaterOrEqual(t, recorder.Now(), operations[len(operations)-1].End)
}

func TestOpenOperationsAreUnknown(t *testing.T) {
	t.Parallel()
	recorder := history.NewRecorder()
	o := recorder.Begin(history.Operation{Kind: history.Push, Items: []history.Item{{TransactionID: "a"}}})
	o.Items[0].MessageID = "half read"
	open := recorder.Operations()
	require.Len(t, open, 1)
	require.Equal(t, history.Unknown, open[0].Outcome)
	require.Equal(t, []history.Item{{TransactionID: "a"}}, open[0].Items)
	require.GreaterOrEqual(t, open[0].End, open[0].Begin)

	o.Outcome = history.Done
	recorder.End(o)
	o.Outcome = history.Refused
	recorder.End(o)
	ended := recorder.Operations()
	require.Len(t, ended, 1)
	require.Equal(t, history.Done, ended[0].Outcome)
}
