package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// recorder notes the events it gets in a list shared with other recorders.
type recorder struct {
	name string
	list *[]string
}

func (r recorder) note(event string) { *r.list = append(*r.list, r.name+" "+event) }

func (r recorder) OnReady([]queue.Ready, events.Origin)    { r.note("ready") }
func (r recorder) OnCreated(_, _ string, _ events.Origin)  { r.note("created") }
func (r recorder) OnPartitionsCreated(string, int)         { r.note("partitions created") }
func (r recorder) OnGroupCreated(_, _, _ string)           { r.note("group created") }
func (r recorder) OnResync(reason string, _ events.Origin) { r.note("resync: " + reason) }
func (r recorder) OnLeaseChanged(queue.ID)                 { r.note("lease changed") }
func (r recorder) OnSQLWaiter(queue.SQLWaiter)             { r.note("SQL waiter") }
func (r recorder) OnListening()                            { r.note("listening") }
func (r recorder) OnInbox()                                { r.note("inbox") }
func (r recorder) OnRevocation()                           { r.note("revocation") }
func (r recorder) OnSetting()                              { r.note("setting") }
func (r recorder) OnSchedule()                             { r.note("schedule") }

// Every handler gets every event before the publisher continues. Handlers are called in the order of subscription.
func TestEveryHandlerGetsEveryEventInOrder(t *testing.T) {
	t.Parallel()
	var got []string
	bus := &events.Bus{}
	bus.Subscribe(recorder{"first", &got})
	bus.Subscribe(events.Nop{})
	bus.Subscribe(recorder{"second", &got})
	for event, publish := range map[string]func(){
		"ready":              func() { bus.Ready([]queue.Ready{{Group: 1}}, events.Here) },
		"created":            func() { bus.Created("q", "p", events.Here) },
		"partitions created": func() { bus.PartitionsCreated("q", 2) },
		"group created":      func() { bus.GroupCreated("q", "p", "g") },
		"resync: why":        func() { bus.Resync("why", events.Peer) },
		"lease changed":      func() { bus.LeaseChanged(queue.ID{}) },
		"SQL waiter":         func() { bus.SQLWaiter(queue.SQLWaiter{}) },
		"listening":          bus.Listening,
		"inbox":              bus.Inbox,
		"revocation":         bus.Revocation,
		"setting":            bus.Setting,
		"schedule":           bus.Schedule,
	} {
		got = nil
		publish()
		require.Equal(t, []string{"first " + event, "second " + event}, got)
	}
	got = nil
	bus.Ready(nil, events.Here)
	require.Empty(t, got, "an empty list is no event")
}
