package model_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// options are the options of the queue that the model knows.
type options struct {
	retryLimit int64
	// backoff means that a failure delays the partition (retryDelay).
	backoff bool
	// expires means that old messages are no longer delivered (expireAfterSeconds). With deadLetters they become dead
	// letters (deadLetterExpired).
	expires, deadLetters bool
	// waits means that the next sweep deletes an old message, even if a group has not read it (maxWaitTimeSeconds).
	waits bool
	// deliveries is maxDeliveries.
	deliveries int32
}

// A retry delay is 2 h and a message expires after 1 h. So a slow test run ends no delay and makes no message old.
const (
	retryDelayMillis = 2 * 3600 * 1000
	expireSeconds    = 3600
)

// skipUndeliverable moves a cursor past expired messages, or past a message that was delivered too often. It reports
// whether the next delivery must contain only one message.
func (w *world) skipUndeliverable(p *partition, c *cursor) (alone bool) {
	if !w.expires && w.deliveries == 0 {
		return false
	}
	before := *c
	left := p.remaining(c)
	switch first := p.next(c.committed); {
	case w.expires && first != nil && first.old:
		c.committed = p.lastOld()
		if !w.deadLetters {
			c.expired += c.committed - before.committed
			for _, seq := range c.skip {
				c.expired -= int64(b2i(seq <= c.committed))
			}
			break
		}
		for _, m := range left {
			if _, dead := c.deadLetters[m.seq]; dead || m.seq > c.committed {
				continue
			}
			attempts := int32(0)
			if m.seq == before.committed+1 {
				attempts = before.attempts
			}
			c.deadLetters[m.seq] = deadLetter{attempts, fmt.Sprintf("expired after %d s", expireSeconds)}
			c.expired++
		}
	case w.deliveries > 0 && c.attempts >= w.deliveries && len(left) > 0:
		c.committed = left[0].seq
		if _, dead := c.deadLetters[c.committed]; !dead {
			c.deadLetters[c.committed] = deadLetter{c.attempts, fmt.Sprintf("delivered %d times without success (maxDeliveries)", c.attempts)}
		}
	}
	switch {
	case c.committed > before.committed:
		c.attempts, c.failures, c.delayed = 0, 0, false
		c.skip = beyond(c.skip, c.committed)
	case c.attempts > 0 && c.attempts == w.deliveries-1 && c.leaseEnd > max(c.aloneUntil, c.committed+1):
		c.aloneUntil = c.leaseEnd
	}
	return w.deliveries > 0 && (c.attempts >= w.deliveries-1 || c.aloneUntil > c.committed)
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
func (p *partition) next(seq int64) *message {
	for i := range p.log[seq:] {
		if m := &p.log[seq+int64(i)]; !m.gone {
			return m
		}
	}
	return nil
}

// lastOld returns the seq before the first message that is not old. Without such a message it returns the last seq.
func (p *partition) lastOld() int64 {
	for _, m := range p.log {
		if !m.gone && !m.old {
			return m.seq - 1
		}
	}
	return p.last()
}

// configure replaces the options. If the new options have no retry delay, pending delays end.
func (w *world) configure(o options) {
	w.open(queue.DefaultPartition)
	rested := w.backoff
	w.options = o
	if !rested || o.backoff {
		return
	}
	for _, p := range w.partitions {
		for _, c := range p.cursors {
			if !c.live {
				c.endBackoff()
				w.recomputeReady(p, c)
			}
		}
	}
}

func (m *machine) configure(r *rapid.T) {
	m.step()
	o := options{
		retryLimit: int64(rapid.IntRange(0, highestLimit).Draw(r, "retryLimit")),
		backoff:    rapid.Bool().Draw(r, "retryDelay"),
		expires:    rapid.Bool().Draw(r, "expireAfterSeconds"), deadLetters: rapid.Bool().Draw(r, "deadLetterExpired"),
		waits:      rapid.Bool().Draw(r, "maxWaitTimeSeconds"),
		deliveries: int32(rapid.IntRange(0, 3).Draw(r, "maxDeliveries")), //nolint:gosec // small
	}
	set := catalog.Settings{Queue: m.queue, Options: queue.DefaultDefaults().Options()}
	set.Options.RetryLimit, set.Options.MaxWaitTimeSeconds = o.retryLimit, expireSeconds*int64(b2i(o.waits))
	set.Options.RetryDelay = retryDelayMillis * int64(b2i(o.backoff))
	set.Extensions.ExpireAfterSeconds = expireSeconds * int64(b2i(o.expires))
	set.Extensions.DeadLetterExpired, set.Extensions.MaxDeliveries = o.deadLetters, int64(o.deliveries)
	made, err := m.catalog.Configure(m.t.Context(), set)
	require.NoError(r, err)
	m.world.configure(o)
	p := m.world.partitions[queue.DefaultPartition]
	if p.id.IsZero() {
		p.id = made.PartitionID
	}
	require.Equal(r, p.id, made.PartitionID)
	r.Logf("configure %+v", o)
}

// endBackoff ends every retry delay of a cursor.
func (c *cursor) endBackoff() {
	c.delayed = false
	for seq, one := range c.redrives {
		one.delayed = false
		c.redrives[seq] = one
	}
}

// pass simulates that time passes: some messages become old, or a retry delay ends.
func (m *machine) pass(r *rapid.T) {
	m.step()
	p := m.world.partitions[rapid.SampledFrom(partitions).Draw(r, "partition")]
	if p == nil || p.id.IsZero() {
		return
	}
	group := rapid.SampledFrom(groups).Draw(r, "group")
	if c := p.cursors[group]; c != nil && (c.delayed || c.firstDelayed()) {
		_, err := m.pool.Exec(m.t.Context(), `
			WITH redrives AS (
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
			[16]byte(p.id), group)
		require.NoError(r, err)
		c.endBackoff()
		m.world.wake(p, c)
		r.Logf("the retry delay of %s in %s ends", group, p.name)
		return
	}
	upto := int64(rapid.IntRange(0, len(p.log)).Draw(r, "old"))
	_, err := m.pool.Exec(m.t.Context(), `
		UPDATE belfry.message m SET created_at = m.created_at - interval '2 hours'
		  FROM belfry.partition p
		 WHERE p.uid = $1 AND m.partition_id = p.id AND m.seq <= $2 AND m.created_at > clock_timestamp() - interval '1 hour'`,
		[16]byte(p.id), upto)
	require.NoError(r, err)
	for i := range p.log[:upto] {
		p.log[i].old = true
	}
	r.Logf("%s is old up to %d", p.name, upto)
}
