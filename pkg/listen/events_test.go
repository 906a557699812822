package listen

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
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
