package app

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/inbox"
	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store"
)

// others joins the dispatcher to the other instances: what happens here goes
// out through the sender, what happens there comes in through the listener.
type others struct {
	sender   *listen.Sender
	listener *listen.Listener
}

func (o *others) Ready(ready []queue.Ready) {
	entries := make([]listen.Entry, len(ready))
	for i, r := range ready {
		// Since when, not in how long: whoever hears it looks, and the look says when,
		// by the database's clock.
		entries[i] = listen.Ready(r.Group, r.Partition, time.Time{})
		if r.In <= 0 {
			entries[i].At = r.At
		}
	}
	o.sender.Send(entries...)
}

func (o *others) Born()        { o.sender.Send(listen.Created()) }
func (o *others) Doubt()       { o.sender.Send(listen.Resync()) }
func (o *others) Proven() bool { return o.listener.Proven() }

func (o *others) state() httpapi.ListenerState {
	state, proof := o.listener.State()
	return httpapi.ListenerState{
		State: string(state), Proof: proof, Reconnects: o.listener.Reconnects(), Peers: len(o.listener.Peers()),
	}
}

// news joins the store to the dispatcher: what the verbs of other rooms change
// reaches both, the one that looks first.
type news struct {
	*dispatch.Dispatcher
	verbs     *store.Store
	sequencer *inbox.Sequencer
}

func (n news) Ready(ready []queue.Ready) {
	n.verbs.Heard(ready)
	n.Dispatcher.Ready(ready)
}

func (n news) Doubt(reason string) {
	n.verbs.Doubt()
	n.sequencer.Doubt()
	n.Dispatcher.Doubt(reason)
}

func (n news) ForgetLease(lease queue.ID) { n.verbs.ForgetLease(lease) }

// hear takes what other instances reported, and what consumers in SQL, who are no
// instance, left behind.
func (n news) hear(m listen.Message) {
	var ready, late []queue.Ready
	for _, e := range m.Entries {
		switch e.Kind {
		case listen.KindReady:
			one := queue.Ready{Group: e.Group, Partition: e.Partition, At: e.At}
			ready = append(ready, one)
			if m.Instance.IsZero() && e.At.IsZero() {
				late = append(late, one) // of a session in SQL, whose transaction may have been long
			}
		case listen.KindCreated:
			n.RemoteBirth()
		case listen.KindResync:
			n.Doubt("another instance asked for it")
		}
	}
	n.verbs.Heard(ready)
	n.verbs.HeardLate(late)
	n.Remote(ready)
	if m.Instance.IsZero() {
		n.verbs.Told(ready)
	}
}

// operatorNews tells the other instances, too, when an operator's verb is a reason
// for doubt.
type operatorNews struct {
	news
	peers *others
}

func (n operatorNews) Doubt(reason string) {
	n.news.Doubt(reason)
	n.peers.Doubt()
}

// storeNews is what the store tells. It lowers its floors by itself.
type storeNews struct {
	*dispatch.Dispatcher
	sequencer *inbox.Sequencer
	peers     *others
}

func (n storeNews) Doubt(reason string) {
	n.sequencer.Doubt()
	n.Dispatcher.Doubt(reason)
	n.peers.Doubt()
}
