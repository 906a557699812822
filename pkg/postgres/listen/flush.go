package listen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/sql"
)

// sendTimeout bounds one statement. After it the connection counts as broken, and the
// flush is sent again over another one.
const sendTimeout = 3 * time.Second

var sqlNotify = sql.Query("postgres/listen/notify")

var errReadOnly = errors.New("the database is read only: check whether another one is the primary now")

// flush sends what is pending. After an error all of it is pending again.
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

// replace sends value on a channel that holds one value, instead of an older value that was not
// received. It does not block if the channel has one sender.
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

// exec signs payloads, or encrypts those on LiveChannel, and sends them over the sender's own connection. If that
// fails, it drops the connection.
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

// send sends payloads, and returns whether the database is read only. If the database has another key by now, such as
// after a restore, the next payloads have that key.
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
		s.newKey() // nobody could read what SQL waiters have sent since
	}
	return readOnly, err
}
