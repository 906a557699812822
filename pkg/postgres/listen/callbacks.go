package listen

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Callbacks receive what the listener hears. The goroutine that reads the connection calls
// them. OnResync, OnState, OnCreated and OnLook are also called by the one that watches it. So a callback
// must be quick: decode, announce, return. It may call the methods of the Listener.
type Callbacks struct {
	// OnReady receives a notification of another instance or of a SQL session that has Ready or
	// Partitions.
	OnReady func(Notification)
	// OnCreated is called when another instance changed the catalog. The notification names nothing. The
	// calls have a pace: createdBurst at once, then one each createdInterval, and always one after the last
	// notification.
	OnCreated func()
	// OnResync is called when hints may be missing. Earlier hints do not cover the gap,
	// so look at the tables. reason is for the log.
	OnResync func(reason string)
	// OnLook is called when another instance asked for a resync, or when a notification could not be read:
	// it may have been a hint of a later version. So look at the tables. Its sender lives, so no wake is
	// missing. lookBurst and lookInterval are the pace of the calls. reason is for the log.
	OnLook func(reason string)
	// OnState is called after every change of the state.
	OnState func(State)
	// OnInbox is called when rows may have been committed to belfry.inbox: at each
	// notification of its trigger, and each time LISTEN takes effect.
	OnInbox func()
	// OnRevocation is called when a token may have been revoked: at each notification, and each time
	// LISTEN takes effect.
	OnRevocation func()
	// OnSetting is called when belfry.setting may have changed: at each notification, and each time
	// LISTEN takes effect.
	OnSetting func()
	// OnLive receives a payload of Sender.SendLive, also one of this instance, and none that another role sent.
	OnLive func(payload string)
	// OnPeerLeft is called when another instance said goodbye or fell silent.
	OnPeerLeft func(instance queue.ID)
	// OnSQLWaiter receives one SQL waiter.
	OnSQLWaiter func(queue.SQLWaiter)
	// OnListening is called each time LISTEN takes effect, and when the database has another key. SQL waiters that
	// registered before may have been missed and must register again. It is also called by the goroutine of the Sender.
	OnListening func()
}

// handler handles a channel for pgxlisten. listening is called once LISTEN has taken
// effect, and heard with the payload of each notification and the session that sent it.
type handler struct {
	listening func(ctx context.Context)
	heard     func(payload string, pid uint32)
}

var _ pgxlisten.BacklogHandler = handler{}

// HandleBacklog implements pgxlisten.BacklogHandler.
func (h handler) HandleBacklog(ctx context.Context, _ string, _ *pgx.Conn) error {
	h.listening(ctx)
	return nil
}

// HandleNotification implements pgxlisten.Handler.
func (h handler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.heard(n.Payload, n.PID)
	return nil
}

// library returns the listener of pgxlisten with the handlers of all channels.
func (l *Listener) library() *pgxlisten.Listener {
	library := &pgxlisten.Listener{
		Connect:  l.reader.connect,
		LogError: l.reader.ended,
		// connect waits instead, because the library always waits equally long.
		ReconnectDelay: -1,
	}
	library.Handle(Channel, handler{l.reader.listenStarted, func(payload string, _ uint32) { l.reader.handle(payload) }})
	library.Handle(InboxChannel, signal(l.callbacks.OnInbox))
	library.Handle(TokensChannel, signal(l.callbacks.OnRevocation))
	library.Handle(SettingsChannel, signal(l.callbacks.OnSetting))
	library.Handle(LiveChannel, handler{calls(func() {}), func(payload string, _ uint32) { l.reader.handleLive(payload) }})
	library.Handle(AwaitChannel, handler{calls(l.callbacks.OnListening), l.handleSQLWaiter})
	return library
}

// signal handles a channel whose payloads have no meaning.
func signal(call func()) handler { return handler{calls(call), func(string, uint32) { call() }} }

// calls returns what only calls call when LISTEN takes effect.
func calls(call func()) func(context.Context) { return func(context.Context) { call() } }

func (l *Listener) handleSQLWaiter(payload string, pid uint32) {
	w, err := l.sender.key.readSQLWaiter(payload, pid)
	if err != nil {
		l.garbage.Add(1)
		l.log.Debug("ignored an unreadable SQL waiter", zap.Error(err)) // every role can send one
		return
	}
	l.callbacks.OnSQLWaiter(w)
}
