package listen

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxLastNumbers is the maximum number of instances in reader.lastNumber. The map also has instances that have ended, so that
// repetitions of their payloads are not accepted.
const maxLastNumbers = 2 * maxPeers

var (
	errNoListen = errors.New("LISTEN did not answer in time")
	errSilent   = errors.New("the canary was not heard in time, so the connection is frozen")
	errUnheard  = errors.New("LISTEN succeeded, but the canary was not heard")
)

// session is one connection of the listener.
type session struct {
	*cancelableConn
	listenTimer *time.Timer // cuts the session unless LISTEN takes effect in time
	proven      atomic.Bool // a canary was heard
}

// reader is the part of the listener that the loop of pgxlisten calls. Only that loop
// uses its fields.
type reader struct {
	*Listener
	current      *session // nil before the first connection and after a failed attempt
	failed       int      // consecutive connections that failed or were lost before a proof
	unheard      int      // consecutive sessions in which LISTEN succeeded and no notification arrived
	outageLogged bool     // the current outage was logged
	// lastNumber is the latest number of a payload, by instance.
	lastNumber map[queue.ID]uint64
	// unreadableLogged is when an unreadable notification was logged last.
	unreadableLogged time.Time
}

// connect waits for the delay that the previous attempts require, and connects.
func (r *reader) connect(ctx context.Context) (*pgx.Conn, error) {
	r.discard(ctx)
	var delay time.Duration
	switch {
	case r.unheard > 0:
		delay = r.unheardRetry.Delay(r.unheard, rand.Float64())
	case r.failed > 0:
		delay = r.reconnect.Delay(r.failed, rand.Float64())
	}
	if err := backoff.Sleep(ctx, delay); err != nil {
		return nil, err
	}
	conn, err := openConn(ctx, r.config)
	if err != nil {
		return nil, err
	}
	s := &session{cancelableConn: conn}
	s.listenTimer = time.AfterFunc(r.config.ConnectTimeout, func() { s.cut(errNoListen) })
	r.current = s
	if err := r.sender.key.load(ctx, conn.Conn); err != nil {
		return nil, err
	}
	return conn.Conn, nil
}

// discard drops the previous session and waits until its resources are released.
func (r *reader) discard(ctx context.Context) {
	if r.current == nil {
		return
	}
	r.current.listenTimer.Stop()
	r.current.drop(ctx)
	r.current = nil
}

// ended is called with the reason when an attempt to connect failed or a session ended.
func (r *reader) ended(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // Run is stopping: this is not an outage
	}
	state := StateReconnecting
	s := r.current
	if s != nil && s.isCut() {
		err = s.cause() // the read failed because the session was cut
	}
	switch {
	case errors.Is(err, errUnheard):
		state, r.unheard, r.failed = StateDeaf, r.unheard+1, 0
	case s != nil && s.proven.Load():
		r.unheard, r.failed = 0, 1
	default:
		r.unheard, r.failed = 0, r.failed+1
	}
	if s != nil {
		s.cut(err) // the watch loop notices the cut
	}
	before, _ := r.State()
	r.report(before, state, err)
	r.change(func(State) State { return state })
}

// report logs an outage once when it begins and once when the state becomes StateDeaf.
// Everything else is logged at debug level.
func (r *reader) report(before, state State, err error) {
	switch {
	case state == StateDeaf && before != StateDeaf:
		r.log.Error("LISTEN succeeded but no notification arrived, as behind a pooler in transaction mode; "+
			"set database.listen_url to a URL that leads directly to Postgres; until then waiting requests poll the database",
			zap.String("host", r.config.Host), zap.Uint16("port", r.config.Port))
	case state != StateDeaf && !r.outageLogged:
		r.log.Warn("the listener lost its connection and reconnects; until then waiting requests poll the database", zap.Error(err))
	default:
		r.log.Debug("the listener still has no proven connection", zap.Error(err))
	}
	r.outageLogged = true
}

// listenStarted is called when LISTEN has taken effect, before the first notification.
func (r *reader) listenStarted(ctx context.Context) {
	r.current.listenTimer.Stop()
	r.peers.extendAll(time.Now())
	reason := "the listener connected"
	if r.reconnects.Add(1) > 1 {
		reason = "the listener reconnected"
	}
	r.callbacks.OnResync(reason)
	select {
	case r.listening <- r.current:
	case <-ctx.Done():
	}
}

// handle is called with each notification on Channel.
func (r *reader) handle(signed string) {
	payload, number := r.sender.key.verify(signed)
	m, err := Decode(payload)
	if err == nil && !m.Instance.IsZero() && !r.isNew(m.Instance, number) {
		err = errForged
	}
	switch {
	case err != nil:
		r.handleUnreadable(err)
	case m.Instance != r.sender.instance:
		r.handleOther(m)
	case m.Canary > 0:
		r.handleOwnCanary(m.Canary)
	default: // the entries are from this process, which has handled them already
	}
}

func (r *reader) handleOther(m Notification) {
	switch {
	case m.Instance.IsZero(): // a SQL session
	case m.Goodbye:
		r.peers.remove(m.Instance, time.Now())
		r.callbacks.OnPeerLeft(m.Instance)
	default:
		r.peers.heard(m.Instance, m.Canary > 0, time.Now())
		r.sender.sendWithheld()
	}
	if m.CatalogChanged {
		r.created.ask("another instance created something")
	}
	if m.Resync {
		r.look.ask("another instance asked for it")
	}
	if len(m.Ready)+len(m.Partitions) > 0 {
		r.callbacks.OnReady(m)
	}
}

// handleLive is called with each notification on LiveChannel.
func (r *reader) handleLive(sealed string) {
	payload, instance, number, err := r.sender.key.open(sealed)
	if err != nil || !r.isNew(instance, number) {
		r.unreadable.Add(1)
		return
	}
	r.callbacks.OnLive(payload)
}

// isNew reports whether number is higher than all numbers that the instance has used. Every role can repeat a payload that it has
// heard, so an old number is not accepted. 0 is never new.
func (r *reader) isNew(instance queue.ID, number uint64) bool {
	if number <= r.lastNumber[instance] {
		return false
	}
	if len(r.lastNumber) >= maxLastNumbers {
		maps.DeleteFunc(r.lastNumber, func(id queue.ID, _ uint64) bool { return id != r.sender.instance && !r.peers.knows(id) })
	}
	r.lastNumber[instance] = number
	return true
}

// handleOwnCanary handles a canary of this instance, which proves the session.
func (r *reader) handleOwnCanary(number uint64) {
	if r.current.isCut() {
		return // the session was cut, and its next read fails
	}
	r.current.proven.Store(true)
	r.failed, r.unheard, r.outageLogged = 0, 0, false
	before, gap := r.prove()
	if before != StateProven {
		r.log.Info("the listener is proven", zap.String("was", string(before)), zap.Duration("after", gap.Round(time.Millisecond)))
	}
	replace(r.heard, number)
}

// Callbacks receive what the listener hears. The goroutine that reads the connection calls
// them. The goroutine that watches the connection also calls OnResync, OnState, OnCreated and OnLook. So a
// callback must be quick: decode, announce, return. It may call the methods of the Listener.
type Callbacks struct {
	// OnReady receives a notification of another instance or of a SQL session that has Ready or
	// Partitions.
	OnReady func(Notification)
	// OnCreated is called when another instance changed the catalog. The notification has no names. The rate is limited:
	// createdBurst calls at once, then one in each createdInterval. One call always follows the last notification.
	OnCreated func()
	// OnResync is called when hints may be missing. Earlier hints do not cover the gap,
	// so look at the tables. reason is for the log.
	OnResync func(reason string)
	// OnLook is called when another instance asked for a resync. It is also called when a notification could not be read, because
	// this may be a hint of a later version. Look at the tables then. In contrast to OnResync, no instance has died, so no wake is
	// missing. lookBurst and lookInterval limit the rate of the calls. reason is for the log.
	OnLook func(reason string)
	// OnState is called after every change of the state.
	OnState func(State)
	// OnInbox is called when rows may have been committed to belfry.inbox: at each notification of the trigger of belfry.inbox,
	// and each time LISTEN takes effect.
	OnInbox func()
	// OnRevocation is called when a token may have been revoked: at each notification, and each time
	// LISTEN takes effect.
	OnRevocation func()
	// OnSetting is called when belfry.setting may have changed: at each notification, and each time
	// LISTEN takes effect.
	OnSetting func()
	// OnSchedule is called when a caller may have changed belfry.schedule: at each notification, and each time LISTEN takes effect.
	OnSchedule func()
	// OnLive receives the payloads of Sender.SendLive, also the payloads of this instance. Payloads of another role are dropped.
	OnLive func(payload string)
	// OnPeerLeft is called when another instance said goodbye or fell silent.
	OnPeerLeft func(instance queue.ID)
	// OnSQLWaiter receives one SQL waiter.
	OnSQLWaiter func(queue.SQLWaiter)
	// OnListening is called each time LISTEN takes effect, and when the database has a new key. SQL waiters that registered before
	// may have been missed and must register again. The goroutine of the Sender also calls it.
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
		// connect waits itself, because the library always waits for the same time.
		ReconnectDelay: -1,
	}
	library.Handle(Channel, handler{l.reader.listenStarted, func(payload string, _ uint32) { l.reader.handle(payload) }})
	library.Handle(InboxChannel, signal(l.callbacks.OnInbox))
	library.Handle(TokensChannel, signal(l.callbacks.OnRevocation))
	library.Handle(SettingsChannel, signal(l.callbacks.OnSetting))
	library.Handle(SchedulesChannel, signal(l.callbacks.OnSchedule))
	library.Handle(LiveChannel, handler{calls(func() {}), func(payload string, _ uint32) { l.reader.handleLive(payload) }})
	library.Handle(AwaitChannel, handler{calls(l.callbacks.OnListening), l.handleSQLWaiter})
	return library
}

// signal handles a channel whose payloads have no meaning.
func signal(call func()) handler { return handler{calls(call), func(string, uint32) { call() }} }

// calls returns a handler.listening that calls call.
func calls(call func()) func(context.Context) { return func(context.Context) { call() } }

func (l *Listener) handleSQLWaiter(payload string, pid uint32) {
	w, err := l.sender.key.readSQLWaiter(payload, pid)
	if err != nil {
		l.unreadable.Add(1)
		l.log.Debug("ignored an unreadable SQL waiter", zap.Error(err)) // every role can send such a notification
		return
	}
	l.callbacks.OnSQLWaiter(w)
}
