package listen

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestTheSenderSendsTheEventsOfThisInstanceOnly(t *testing.T) {
	t.Parallel()
	at := time.Now()
	ready := []queue.Ready{{Group: 1, Partition: 2, At: at}, {Group: 1, Partition: 3, In: time.Second, At: at}}
	for _, from := range []events.Origin{events.Here, events.Peer, events.SQL} {
		sender, bus := newSender(queue.NewID(), DefaultConfig(), zap.NewNop()), &events.Bus{}
		bus.Subscribe(sender)
		bus.Ready(ready, from)
		bus.Created("orders", "1", from)
		if from != events.Here {
			bus.Resync("a queue was deleted", from)
			require.True(t, sender.pending.empty())
			continue
		}
		require.Equal(t, pendingNotifications{
			ready:   map[groupPartition]time.Time{{1, 2}: at, {1, 3}: {}}, // the receiver learns the second instant from the database
			created: true,
		}, sender.pending)
		bus.Resync("a queue was deleted", from)
		require.Equal(t, pendingNotifications{resync: true}, sender.pending)
	}
	sender, bus := newSender(queue.NewID(), DefaultConfig(), zap.NewNop()), &events.Bus{}
	bus.Subscribe(sender)
	bus.SQLWaiter(queue.SQLWaiter{})
	bus.Listening()
	bus.Inbox()
	require.True(t, sender.pending.empty(), "these events are of this instance alone")
}

// A partition is one entry, however many groups it became ready for.
func TestAPartitionOfManyGroupsIsOneEntry(t *testing.T) {
	t.Parallel()
	sender := newSender(queue.NewID(), DefaultConfig(), zap.NewNop())
	sender.QueueOf = func(partition int64) (int64, bool) { return 7, partition < 100 }
	at := time.UnixMicro(1_724_000_000_000_000).UTC()
	var ready []queue.Ready
	for group := range int64(10_000) {
		ready = append(ready, Ready(group+1, 2, at.Add(time.Duration(group)*time.Second)))
		ready = append(ready, queue.Ready{Group: group + 1, Partition: 3, In: time.Second, At: at}) // the receivers probe
	}
	sender.Send(append(ready, Ready(5, 4, at), Ready(5, 100, at), Ready(6, 100, at))...)
	require.Equal(t, pendingNotifications{
		ready:      map[groupPartition]time.Time{{5, 4}: at, {5, 100}: at, {6, 100}: at}, // one group; an unknown queue
		partitions: map[int64]ReadyPartition{2: {Queue: 7, Partition: 2, At: at}, 3: {Queue: 7, Partition: 3}},
	}, sender.pending)
	payloads, hints := sender.pending.payloads(sender.instance)
	require.Len(t, payloads, 1)
	require.Equal(t, 5, hints)
}
