package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// event is one event of the bus.
type event struct {
	kind  string
	ready []queue.Ready
	text  string
	from  events.Origin
}

// recorder keeps the events of a bus.
type recorder struct {
	events.Nop
	list []event
}

func (r *recorder) OnReady(ready []queue.Ready, from events.Origin) {
	r.list = append(r.list, event{kind: "ready", ready: ready, from: from})
}

func (r *recorder) OnCreated(queueName, partition string, from events.Origin) {
	r.list = append(r.list, event{kind: "created", text: queueName + partition, from: from})
}

func (r *recorder) OnResync(reason string, from events.Origin) {
	r.list = append(r.list, event{kind: "resync", text: reason, from: from})
}

func (r *recorder) OnSQLWaiter(w queue.SQLWaiter) {
	r.list = append(r.list, event{kind: "SQL waiter", text: w.Channel})
}

func (r *recorder) ListenerChanged(string) { r.list = append(r.list, event{kind: "listener changed"}) }
func (r *recorder) Heard(payload string)   { r.list = append(r.list, event{kind: "live", text: payload}) }
func (r *recorder) PeerLeft(queue.ID)      { r.list = append(r.list, event{kind: "peer left"}) }

func (r *recorder) OnListening()  { r.list = append(r.list, event{kind: "listening"}) }
func (r *recorder) OnInbox()      { r.list = append(r.list, event{kind: "inbox"}) }
func (r *recorder) OnRevocation() { r.list = append(r.list, event{kind: "revocation"}) }
func (r *recorder) OnSetting()    { r.list = append(r.list, event{kind: "setting"}) }
func (r *recorder) OnSchedule()   { r.list = append(r.list, event{kind: "schedule"}) }

func TestInboundPublishesWhatTheListenerHears(t *testing.T) {
	t.Parallel()
	at := time.Now()
	lost, doubt := 0, 0
	groupsOf := func(queueKey int64) []int64 { return map[int64][]int64{7: {70, 71}}[queueKey] }
	for name, c := range map[string]struct {
		hear func(listen.Callbacks)
		want []event
		lost int
		// doubt is how often the connections of the pools are reported as possibly broken.
		doubt int
	}{
		"a notification of a peer": {
			hear: func(l listen.Callbacks) {
				l.OnReady(listen.Notification{Instance: queue.NewID(), Ready: []queue.Ready{{Group: 1, Partition: 2, At: at}, {Group: 3}}})
			},
			want: []event{{kind: "ready", ready: []queue.Ready{{Group: 1, Partition: 2, At: at}, {Group: 3}}, from: events.Peer}},
		},
		"a partition that became ready for several groups": {
			hear: func(l listen.Callbacks) {
				l.OnReady(listen.Notification{
					Instance: queue.NewID(), Ready: []queue.Ready{{Group: 1, Partition: 2}},
					Partitions: []listen.ReadyPartition{{Queue: 7, Partition: 3, At: at}, {Queue: 8, Partition: 4}},
				})
			},
			want: []event{{kind: "ready", ready: []queue.Ready{
				{Group: 1, Partition: 2}, {Group: 70, Partition: 3, At: at}, {Group: 71, Partition: 3, At: at},
			}, from: events.Peer}},
		},
		"a creation by a peer": {
			hear: func(l listen.Callbacks) { l.OnCreated() },
			want: []event{{kind: "created", from: events.Peer}},
		},
		"a notification of a SQL session": {
			hear: func(l listen.Callbacks) {
				l.OnReady(listen.Notification{Ready: []queue.Ready{{Group: 1, Partition: 2}}})
			},
			want: []event{{kind: "ready", ready: []queue.Ready{{Group: 1, Partition: 2}}, from: events.SQL}},
		},
		"a silent peer": {
			hear: func(l listen.Callbacks) { l.OnResync("a peer fell silent") },
			want: []event{{kind: "resync", text: "a peer fell silent", from: events.Peer}},
			lost: 1,
		},
		"a new state of the listener": {
			hear: func(l listen.Callbacks) { l.OnState(listen.State("degraded")) },
			want: []event{{kind: "resync", text: "the listener is degraded", from: events.Peer}, {kind: "listener changed"}},
		},
		"a lost connection": {
			hear:  func(l listen.Callbacks) { l.OnState(listen.StateReconnecting) },
			want:  []event{{kind: "resync", text: "the listener is reconnecting", from: events.Peer}, {kind: "listener changed"}},
			doubt: 1,
		},
		"events of another instance for the watchers": {
			hear: func(l listen.Callbacks) { l.OnLive("{}"); l.OnPeerLeft(queue.NewID()) },
			want: []event{{kind: "live", text: "{}"}, {kind: "peer left"}},
		},
		"garbage, or a resync of a peer": { // no wake is lost
			hear: func(l listen.Callbacks) { l.OnLook("garbage") },
			want: []event{{kind: "resync", text: "garbage", from: events.Peer}},
		},
		"the inbox": {
			hear: func(l listen.Callbacks) { l.OnInbox() },
			want: []event{{kind: "inbox"}},
		},
		"a revoked token": {
			hear: func(l listen.Callbacks) { l.OnRevocation() },
			want: []event{{kind: "revocation"}},
		},
		"a switch": {
			hear: func(l listen.Callbacks) { l.OnSetting() },
			want: []event{{kind: "setting"}},
		},
		"a schedule": {
			hear: func(l listen.Callbacks) { l.OnSchedule() },
			want: []event{{kind: "schedule"}},
		},
		"SQL waiters": {
			hear: func(l listen.Callbacks) {
				l.OnSQLWaiter(queue.SQLWaiter{Channel: "c"})
				l.OnListening()
			},
			want: []event{{kind: "SQL waiter", text: "c"}, {kind: "listening"}},
		},
	} {
		bus, got := &events.Bus{}, &recorder{}
		bus.Subscribe(got)
		lost, doubt = 0, 0
		c.hear(inboundEvents{bus: bus, reportLostWake: func() { lost++ }, doubtConnections: func() { doubt++ }, hub: got, groupsOf: groupsOf}.callbacks())
		require.Equal(t, c.want, got.list, name)
		require.Equal(t, c.lost, lost, name)
		require.Equal(t, c.doubt, doubt, name)
	}
}
