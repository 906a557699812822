package model_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// options are the options of the queue that the model knows.
type options struct {
	retryLimit int64
	// backoff: a failure delays the partition (retryDelay).
	backoff bool
	// expires: old messages are not delivered any more (expireAfterSeconds). With deadLetters, they become dead letters
	// (deadLetterExpired).
	expires, buries bool
	// waits: the next sweep deletes an old message that some group has not read (maxWaitTimeSeconds).
	waits bool
	// deliveries is maxDeliveries.
	deliveries int32
}

// In the database, a retry delay lasts at least an hour, and old messages are older than that. So a pause of the
// machine changes nothing.
const (
	restMillis    = 2 * 3600 * 1000
	expireSeconds = 3600
)

// skipUndeliverable moves a cursor past expired messages, or past a message delivered too often. It returns whether the
// next delivery must contain only one message.
func (w *world) setAside(l *lane, p *place) (alone bool) {
	if !w.expires && w.deliveries == 0 {
		return false
	}
	before := *p
	left := l.undone(p)
	switch first := l.next(p.committed); {
	case w.expires && first != nil && first.old:
		p.committed = l.lastOld()
		if !w.buries {
			p.expired += p.committed - before.committed
			for _, seq := range p.skip {
				p.expired -= int64(b2i(seq <= p.committed))
			}
			break
		}
		for _, m := range left {
			if _, dead := p.letters[m.seq]; dead || m.seq > p.committed {
				continue
			}
			attempts := int32(0)
			if m.seq == before.committed+1 {
				attempts = before.attempts
			}
			p.letters[m.seq] = letter{attempts, fmt.Sprintf("expired after %d s", expireSeconds)}
			p.expired++
		}
	case w.deliveries > 0 && p.attempts >= w.deliveries && len(left) > 0:
		p.committed = left[0].seq
		if _, dead := p.letters[p.committed]; !dead {
			p.letters[p.committed] = letter{p.attempts, fmt.Sprintf("delivered %d times without success (maxDeliveries)", p.attempts)}
		}
	}
	switch {
	case p.committed > before.committed:
		p.attempts, p.failures, p.rests = 0, 0, false
		p.skip = beyond(p.skip, p.committed)
	case p.attempts > 0 && p.attempts == w.deliveries-1 && p.leaseEnd > max(p.aloneUntil, p.committed+1):
		p.aloneUntil = p.leaseEnd
	}
	return w.deliveries > 0 && (p.attempts >= w.deliveries-1 || p.aloneUntil > p.committed)
}

func beyond(skip []int64, committed int64) []int64 {
	var kept []int64
	for _, seq := range skip {
		if seq > committed {
			kept = append(kept, seq)
		}
	}
	return kept
}

// next returns the first message after a seq, or nil.
func (l *lane) next(seq int64) *message {
	for i := range l.log[seq:] {
		if m := &l.log[seq+int64(i)]; !m.gone {
			return m
		}
	}
	return nil
}

// lastOld returns the seq before the first message that is not old.
func (l *lane) lastOld() int64 {
	for _, m := range l.log {
		if !m.gone && !m.old {
			return m.seq - 1
		}
	}
	return l.last()
}

// configure replaces the options. Without a retry delay, pending delays end.
func (w *world) configure(o options) {
	w.open(queue.DefaultPartition)
	rested := w.backoff
	w.options = o
	if !rested || o.backoff {
		return
	}
	for _, l := range w.lanes {
		for _, p := range l.places {
			if !p.live {
				p.rested()
				w.rearm(l, p)
			}
		}
	}
}

func (m *machine) configure(r *rapid.T) {
	m.step()
	o := options{
		retryLimit: int64(rapid.IntRange(0, highestLimit).Draw(r, "retryLimit")),
		backoff:    rapid.Bool().Draw(r, "retryDelay"),
		expires:    rapid.Bool().Draw(r, "expireAfterSeconds"), buries: rapid.Bool().Draw(r, "deadLetterExpired"),
		waits:      rapid.Bool().Draw(r, "maxWaitTimeSeconds"),
		deliveries: int32(rapid.IntRange(0, 3).Draw(r, "maxDeliveries")), //nolint:gosec // small
	}
	set := catalog.Settings{Queue: m.queue, Options: queue.DefaultDefaults().Options()}
	set.Options.RetryLimit, set.Options.MaxWaitTimeSeconds = o.retryLimit, expireSeconds*int64(b2i(o.waits))
	set.Extensions.RetryBackoff = restMillis * int64(b2i(o.backoff))
	set.Extensions.ExpireAfterSeconds = expireSeconds * int64(b2i(o.expires))
	set.Extensions.DeadLetterExpired, set.Extensions.MaxDeliveries = o.buries, int64(o.deliveries)
	made, err := m.catalog.Configure(m.t.Context(), set)
	require.NoError(r, err)
	m.world.configure(o)
	l := m.world.lanes[queue.DefaultPartition]
	if l.id.IsZero() {
		l.id = made.PartitionID
	}
	require.Equal(r, l.id, made.PartitionID)
	r.Logf("configure %+v", o)
}

// endBackoff ends every retry delay of a cursor.
func (p *place) rested() {
	p.rests = false
	for seq, one := range p.redrives {
		one.rests = false
		p.redrives[seq] = one
	}
}

// pass lets time pass: some messages become old, or a retry delay ends.
func (m *machine) pass(r *rapid.T) {
	m.step()
	l := m.world.lanes[rapid.SampledFrom(partitions).Draw(r, "partition")]
	if l == nil || l.id.IsZero() {
		return
	}
	group := rapid.SampledFrom(groups).Draw(r, "group")
	if p := l.places[group]; p != nil && (p.rests || p.restsFirst()) {
		_, err := m.pool.Exec(m.t.Context(), `
			WITH rest AS (
			    UPDATE belfry.redrive r SET retry_at = statement_timestamp()
			      FROM belfry.partition p, belfry.consumer_group g
			     WHERE p.uid = $1 AND g.queue_id = p.queue_id AND g.name = $2 AND r.partition_id = p.id AND r.group_id = g.id
			       AND r.retry_at IS NOT NULL
			)
			UPDATE belfry.cursor c
			   SET ready_at = CASE WHEN c.lease_id IS NULL AND c.ready_at > statement_timestamp() THEN statement_timestamp()
			                       ELSE c.ready_at END,
			       retry_at = CASE WHEN c.retry_at IS NOT NULL THEN statement_timestamp() END
			  FROM belfry.partition p, belfry.consumer_group g
			 WHERE p.uid = $1 AND g.queue_id = p.queue_id AND g.name = $2 AND c.partition_id = p.id AND c.group_id = g.id`,
			[16]byte(l.id), group)
		require.NoError(r, err)
		p.rested()
		m.world.wake(l, p)
		r.Logf("the retry delay of %s in %s ends", group, l.name)
		return
	}
	upto := int64(rapid.IntRange(0, len(l.log)).Draw(r, "old"))
	_, err := m.pool.Exec(m.t.Context(), `
		UPDATE belfry.message m SET created_at = m.created_at - interval '2 hours'
		  FROM belfry.partition p
		 WHERE p.uid = $1 AND m.partition_id = p.id AND m.seq <= $2 AND m.created_at > clock_timestamp() - interval '1 hour'`,
		[16]byte(l.id), upto)
	require.NoError(r, err)
	for i := range l.log[:upto] {
		l.log[i].old = true
	}
	r.Logf("%s is old up to %d", l.name, upto)
}
