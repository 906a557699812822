package listen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// maxLive is the maximum number of payloads of SendLive that wait to be sent.
const maxLive = 8

// maxSendDelay is the longest delay between flushes that fail.
const maxSendDelay = time.Second

// SenderStats are counters since the start.
type SenderStats struct {
	// Flushes is the number of notifying commits. Failures is the number of attempts that failed.
	Flushes, Failures atomic.Int64
	// EntriesIn is the number of queued hints. EntriesOut is the number of hints that were sent for them. EntriesIn / EntriesOut
	// is the coalescing ratio. Withheld is the number of hints that were not queued because no other instance could be listening.
	EntriesIn, EntriesOut, Withheld atomic.Int64
}

// Sender notifies other instances of the changes that this instance commits. Subscribe it to the bus. It is safe for concurrent
// use.
type Sender struct {
	events.Nop
	instance queue.ID
	cfg      Config
	log      *zap.Logger
	retry    backoff.Policy
	// notify sends payloads in one commit. After an error it is unknown whether they were sent.
	notify func(ctx context.Context, payloads []string) error
	// notifyLive is like notify, for payloads on LiveChannel.
	notifyLive func(ctx context.Context, payloads []string) error
	// readOnly is called if Postgres is read only. Only Run calls it.
	readOnly func()
	// QueueOf returns the queue of a partition, if it is known. It may be nil. Set it before the first event.
	QueueOf func(partition int64) (queueKey int64, ok bool)

	// alone reports whether no other instance can be listening. Nil: another instance may be listening.
	alone func(now time.Time) bool
	// newKey is called when the database has a new key. It may be nil.
	newKey func()

	config *pgx.ConnConfig
	conn   *cancelableConn // nil: not connected; used only by Run
	key    channelKey
	number uint64 // number of the latest payload; used only by Run

	mu      sync.Mutex
	pending pendingNotifications
	// withheld: hints were not queued because this instance was alone.
	withheld bool
	live     []string      // payloads of SendLive, the latest last
	wake     events.Signal // holds a value if pending may have changed since Run read it

	// sentCanaries holds the number of the latest canary that was sent, until the
	// listener takes it.
	sentCanaries chan uint64
	// announced: a canary was sent, so other instances know this instance. Used only by Run.
	announced bool

	Stats SenderStats
}

// NewSender returns a Sender for the database at url, which should lead directly to
// Postgres. instance identifies this process to the other instances. NewSender does not
// connect. An error means that url is invalid.
//
// The Sender calls readOnly when its Postgres has become read only, because another server may be the primary then. The Sender
// then connects again. readOnly must not block.
func NewSender(url string, instance queue.ID, cfg Config, readOnly func(), log *zap.Logger) (*Sender, error) {
	config, err := parse(url, "belfry-notify")
	if err != nil {
		return nil, fmt.Errorf("reading the URL for notifications: %w", err)
	}
	s := newSender(instance, cfg, log)
	s.config, s.readOnly = config, readOnly
	s.notify = func(ctx context.Context, payloads []string) error { return s.exec(ctx, Channel, payloads) }
	s.notifyLive = func(ctx context.Context, payloads []string) error { return s.exec(ctx, LiveChannel, payloads) }
	return s, nil
}

func newSender(instance queue.ID, cfg Config, log *zap.Logger) *Sender {
	return &Sender{
		instance: instance, cfg: cfg, log: log, wake: events.NewSignal(), sentCanaries: make(chan uint64, 1),
		retry: backoff.Policy{Initial: cfg.NotifyInterval, Max: max(maxSendDelay, cfg.NotifyInterval), Threshold: 1, Multiplier: 2},
	}
}

// OnReady queues partitions that this instance made ready, and returns at once. For a partition that is poppable now, it also
// sends the instant at which the partition became poppable. For a partition that becomes poppable later, the receiver probes and
// learns the instant from the database. A partition that became ready for several groups is one entry. Entries queued before Run
// are sent by Run. Entries queued after Run has returned are not sent.
func (s *Sender) OnReady(ready []queue.Ready, from events.Origin) {
	if from != events.Here {
		return
	}
	shared := s.queuesOfShared(ready)
	s.queueHints(len(ready), from, func(n *pendingNotifications) {
		for _, r := range ready {
			if r.In > 0 {
				r.At = time.Time{}
			}
			if queueKey, ok := shared[r.Partition]; ok {
				n.addPartition(ReadyPartition{Queue: queueKey, Partition: r.Partition, At: r.At})
			} else {
				n.add(r)
			}
		}
	})
}

// queuesOfShared returns the queues of the partitions that became ready for more than one group.
func (s *Sender) queuesOfShared(ready []queue.Ready) map[int64]int64 {
	if len(ready) < 2 || s.QueueOf == nil {
		return nil
	}
	groups := make(map[int64]int, len(ready))
	for _, r := range ready {
		if r.Partition > 0 {
			groups[r.Partition]++
		}
	}
	shared := map[int64]int64{}
	for partition, n := range groups {
		if n < 2 {
			continue
		}
		if queueKey, ok := s.QueueOf(partition); ok {
			shared[partition] = queueKey
		}
	}
	return shared
}

// OnCreated queues that this instance created something, without its name.
func (s *Sender) OnCreated(_, _ string, from events.Origin) {
	s.queueHints(1, from, (*pendingNotifications).addCreated)
}

// OnResync queues a resync of the other instances.
func (s *Sender) OnResync(_ string, from events.Origin) {
	s.queueHints(1, from, (*pendingNotifications).resyncOnly)
}

// SendLive queues a payload on LiveChannel, and returns at once. At most maxLive payloads are queued. A further payload replaces
// the oldest.
func (s *Sender) SendLive(payload string) {
	s.updatePending(func(*pendingNotifications) { s.live = append(s.live[max(0, len(s.live)-maxLive+1):], payload) })
}

func (s *Sender) queueHints(count int, from events.Origin, change func(*pendingNotifications)) {
	if from != events.Here {
		return
	}
	s.mu.Lock()
	if s.alone != nil && s.alone(time.Now()) {
		s.withheld = true
		s.mu.Unlock()
		s.Stats.Withheld.Add(int64(count))
		return
	}
	change(&s.pending)
	s.mu.Unlock()
	s.Stats.EntriesIn.Add(int64(count))
	s.wake.Set()
}

// sendWithheld queues a resync in place of the withheld hints, if there are any. It is called when this instance is no longer
// alone, or may no longer be alone.
func (s *Sender) sendWithheld() {
	s.mu.Lock()
	due := s.withheld
	if due {
		s.withheld = false
		s.pending.resyncOnly()
	}
	s.mu.Unlock()
	if due {
		s.wake.Set()
	}
}

// sendCanary queues a canary. After the commit of the canary, sentCanaries receives the number of this canary or of a later
// canary.
func (s *Sender) sendCanary(number uint64) {
	s.updatePending(func(n *pendingNotifications) { n.canary = max(n.canary, number) })
}

func (s *Sender) updatePending(change func(*pendingNotifications)) {
	s.mu.Lock()
	change(&s.pending)
	s.mu.Unlock()
	s.wake.Set()
}

// Run sends queued entries until ctx ends. It sends the first entry at once, and the entries that arrive within notify_interval
// after it together. Run repeats a flush that fails or has an unknown outcome.
//
// When ctx ends, Run sends the queued entries together with a goodbye, within
// stop_timeout. If that fails, it logs a warning, and the other instances notice the
// silence. Run always returns nil. It must be called only once.
func (s *Sender) Run(ctx context.Context) error {
	// ctx ends the regular flushes. work ends the last flush.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.cfg.StopTimeout, stop) })()
	defer func() {
		if s.conn != nil {
			s.conn.close(work)
		}
	}()
	var started time.Time
	failed := 0
	for {
		select {
		case <-ctx.Done():
			s.flushLast(work)
			return nil
		case <-s.wake:
		}
		gap := s.cfg.NotifyInterval - time.Since(started)
		if failed > 0 {
			gap = s.retry.Delay(failed, rand.Float64())
		}
		if backoff.Sleep(ctx, gap) != nil {
			s.flushLast(work)
			return nil
		}
		started = time.Now()
		failed = s.countFailures(failed, s.flush(work))
	}
}

// countFailures returns how many flushes in a row have failed, given the outcome of the latest flush. It logs the first failure
// and the recovery.
func (s *Sender) countFailures(failed int, err error) int {
	switch {
	case err != nil && failed == 0:
		s.log.Warn("sending notifications to other instances failed; they are kept and sent again", zap.Error(err))
		return 1
	case err != nil:
		return failed + 1
	case failed > 0:
		s.log.Info("sending notifications to other instances works again", zap.Int("failed_flushes", failed))
	}
	return 0
}

// sendTimeout bounds one statement. When it is exceeded, the connection counts as broken, and the flush is sent again over a new
// connection.
const sendTimeout = 3 * time.Second

var sqlNotify = sql.Query("postgres/listen/notify")

var errReadOnly = errors.New("the database is read only: check whether another server is the primary now")

// flush sends the pending entries. After an error all of them are pending again.
func (s *Sender) flush(ctx context.Context) error {
	s.mu.Lock()
	batch, live := s.pending, s.live
	s.pending, s.live = pendingNotifications{}, nil
	s.mu.Unlock()
	err := s.flushHints(ctx, &batch)
	if len(live) > 0 && err == nil {
		err = s.notifyLive(ctx, live)
	}
	if err != nil {
		s.updatePending(func(*pendingNotifications) {
			live = append(live, s.live...)
			s.live = live[max(0, len(live)-maxLive):]
		})
	}
	return err
}

// flushHints sends the hints of a batch. After an error they are pending again.
func (s *Sender) flushHints(ctx context.Context, batch *pendingNotifications) error {
	if batch.empty() {
		return nil
	}
	payloads, hints := batch.payloads(s.instance)
	if err := s.notify(ctx, payloads); err != nil {
		s.Stats.Failures.Add(1)
		s.updatePending(func(n *pendingNotifications) {
			batch.merge(n)
			*n = *batch
		})
		return fmt.Errorf("sending %d notifications: %w", len(payloads), err)
	}
	s.Stats.Flushes.Add(1)
	s.Stats.EntriesOut.Add(int64(hints))
	if batch.canary > 0 {
		s.announced = true
		replace(s.sentCanaries, batch.canary)
	}
	return nil
}

// replace sends value on a channel that holds one value. It drops an older value that was not received. It does not block if the
// channel has one sender.
func replace(c chan uint64, value uint64) {
	select {
	case <-c:
	default:
	}
	c <- value
}

// flushLast sends the pending entries and a goodbye. It tries until it succeeds or work ends.
func (s *Sender) flushLast(work context.Context) {
	s.sendWithheld() // an instance may just be starting
	if s.announced {
		s.updatePending(func(n *pendingNotifications) { n.goodbye = true })
	}
	for failed := 1; ; failed++ {
		err := s.flush(work)
		if err == nil {
			return
		}
		if backoff.Sleep(work, s.retry.Delay(failed, rand.Float64())) != nil {
			s.log.Warn("the last notifications were not sent; other instances will notice the silence", zap.Error(err))
			return
		}
	}
}

// exec signs payloads, or encrypts payloads for LiveChannel, and sends them over the sender's own connection. If that fails, it
// drops the connection.
func (s *Sender) exec(ctx context.Context, channel string, payloads []string) (err error) {
	opened := s.conn == nil
	if opened {
		if s.conn, err = openConn(ctx, s.config); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if opened {
		err = s.key.load(ctx, s.conn.Conn)
	}
	var readOnly bool
	if err == nil {
		readOnly, err = s.send(ctx, channel, payloads)
	}
	if err == nil && readOnly {
		s.readOnly()
		err = errReadOnly
	}
	if err != nil {
		s.conn.drop(ctx)
		s.conn = nil
	}
	return err
}

// send sends payloads, and returns whether the database is read only. If the database has a new key, for example after a restore,
// the next payloads use this key.
func (s *Sender) send(ctx context.Context, channel string, payloads []string) (readOnly bool, err error) {
	sent := make([]string, len(payloads))
	for i, payload := range payloads {
		if s.number++; channel == LiveChannel {
			sent[i] = s.key.seal(payload, s.instance, s.number)
		} else {
			sent[i] = s.key.sign(payload, s.number)
		}
	}
	var key string
	rows, err := s.conn.Query(ctx, sqlNotify, channel, sent)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{nil, &readOnly, &key}, func() error { return nil })
	}
	if err == nil && s.key.setHex(key) && s.newKey != nil {
		s.newKey() // with the old key nobody could read new announcements of SQL waiters
	}
	return readOnly, err
}
