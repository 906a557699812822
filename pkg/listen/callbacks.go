package listen

import (
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Callbacks receive what the listener hears. The listener makes one call at a time, from
// the goroutine that reads the connection or the one that watches it. So a callback must
// be quick: decode, announce, return. It may call the methods of the Listener.
type Callbacks struct {
	// OnMessage receives a message of another instance with at least one entry.
	OnMessage func(Message)
	// OnResync is called when hints may be missing. Earlier hints do not cover the gap,
	// so look at the tables. reason is for the log.
	OnResync func(reason string)
	// OnState is called at every change of the state. It may be nil.
	OnState func(State)
	// OnInbox is called when rows may have been committed to belfry.inbox: at each
	// notification of its trigger, and each time LISTEN takes effect. It may be nil.
	OnInbox func()
	// SQLWaiters receives the SQL waiters. It may be nil.
	SQLWaiters SQLWaiterSink
}

// SQLWaiterSink receives the SQL waiters.
type SQLWaiterSink interface {
	// Await receives one SQL waiter.
	Await(waiter queue.SQLWaiter)
	// AskAgain is called each time LISTEN takes effect. SQL waiters that registered
	// before may have been missed and must register again.
	AskAgain()
}

func (l *Listener) requestResync(reason string) {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.OnResync(reason)
}

func (l *Listener) deliver(m Message) {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.OnMessage(m)
}

func (l *Listener) notifyInbox() {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.OnInbox()
}

func (l *Listener) askAgain() {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.SQLWaiters.AskAgain()
}

func (l *Listener) awaitWaiter(payload string) {
	w, err := DecodeSQLWaiter(payload)
	if err != nil {
		l.log.Debug("ignored an unreadable SQL waiter", zap.Error(err)) // every role can send one
		return
	}
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.SQLWaiters.Await(w)
}
