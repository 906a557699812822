package model_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// redrive is a redriven dead letter.
type redrive struct {
	failures, attempts int32
	// deliveries counts the deliveries since the redrive.
	deliveries int32
	// lease is the lease of the latest delivery. It may have ended.
	lease queue.ID
	// delayed means that the message failed and its retry delay has not ended.
	delayed bool
}

// first returns the redriven message with the lowest seq. If this message is delayed, no redriven message is ready.
func (c *cursor) first() (one redrive, ok bool) {
	if len(c.redrives) == 0 {
		return one, false
	}
	return c.redrives[slices.Min(slices.Collect(maps.Keys(c.redrives)))], true
}

// redelivers reports whether redriven messages are ready. firstDelayed reports whether the first one is delayed.
func (c *cursor) redelivers() bool {
	one, ok := c.first()
	return ok && !one.delayed
}

func (c *cursor) firstDelayed() bool {
	one, ok := c.first()
	return ok && one.delayed
}

func (c *cursor) underRedelivery() bool { return c.live && c.leaseEnd < 0 }

// redeliver delivers redriven messages in seq order, before it delivers from the log. The leaseEnd of their lease is the
// negative number of messages.
//
// 1. A message becomes a dead letter again if it was delivered maxDeliveries times since its redrive.
// 2. A message with one delivery left is delivered alone.
// 3. A delayed message delays the redriven messages after it.
func (w *world) redeliver(p *partition, c *cursor, autoAck bool, lease queue.ID, room int) []string {
	seqs := slices.Sorted(maps.Keys(c.redrives))
	var messages []string
	for _, seq := range seqs[:min(len(seqs), room)] {
		one := c.redrives[seq]
		if one.delayed {
			break
		}
		if w.deliveries > 0 && one.deliveries >= w.deliveries {
			c.exhaust(seq)
			continue
		}
		last := !autoAck && one.deliveries == w.deliveries-1
		if last && len(messages) > 0 {
			break
		}
		if autoAck {
			delete(c.redrives, seq)
			one.attempts = 0
		} else {
			one.attempts, one.deliveries, one.lease = one.attempts+1, one.deliveries+1, lease
			c.redrives[seq] = one
		}
		messages = append(messages, fmt.Sprintf("%s#%d attempt %d", p.name, seq, one.attempts))
		if last {
			break
		}
	}
	if autoAck || len(messages) == 0 {
		w.recomputeReady(p, c)
	} else {
		c.lease, c.live, c.leaseEnd, c.due = lease, true, -int64(len(messages)), 0
	}
	return messages
}

// exhaust makes a redriven message a dead letter again.
func (c *cursor) exhaust(seq int64) {
	one := c.redrives[seq]
	delete(c.redrives, seq)
	if _, dead := c.deadLetters[seq]; !dead {
		reason := fmt.Sprintf("delivered %d times since it was redriven, without success (maxDeliveries)", one.deliveries)
		c.deadLetters[seq] = deadLetter{one.attempts, reason}
	}
}

// undoAttempt undoes the delivery of a released lease.
func (c *cursor) undoAttempt(lease queue.ID) {
	for seq, one := range c.redrives {
		if one.lease == lease {
			one.attempts, one.deliveries = max(one.attempts-1, 0), max(one.deliveries-1, 0)
			c.redrives[seq] = one
		}
	}
}

// redelivered is the effect that one call of ack has on redriven messages.
type redelivered struct {
	before        cursor
	changed, ends bool
	held          int64
}

// ackRedriven applies the acks of redriven messages in the order of the call, and returns the other acks. Each ack settles
// only its message and moves no cursor.
func (w *world) ackRedriven(c *cursor, list []ackInput, verdicts []ackAnswer) (others []ackInput, d redelivered) {
	d.before = *c
	d.before.redrives = maps.Clone(c.redrives)
	for _, s := range slices.SortedStableFunc(slices.Values(list), func(a, b ackInput) int { return a.index - b.index }) {
		one, put := d.before.redrives[s.seq]
		leased := put && one.lease == c.lease && !c.lease.IsZero()
		mine := s.item.LeaseID != "" && c.live && strings.ToLower(s.item.LeaseID) == c.lease.String()
		switch {
		case put && (leased || s.item.LeaseID == "" && (s.seq <= c.committed || slices.Contains(c.skip, s.seq))):
			if s.item.LeaseID != "" && !mine {
				verdicts[s.index].err = staleLease
				continue
			}
			verdicts[s.index].success = s.item.Status != queue.AckUnknown
			w.ackOneRedriven(c, s, leased, &verdicts[s.index], &d)
		case mine && c.leaseEnd < 0:
			verdicts[s.index].success = s.item.Status != queue.AckUnknown
		default:
			others = append(others, s)
		}
	}
	slices.SortStableFunc(others, func(a, b ackInput) int { return int(a.seq - b.seq) })
	return others, d
}

func (w *world) ackOneRedriven(c *cursor, s ackInput, leased bool, v *ackAnswer, d *redelivered) {
	one, open := c.redrives[s.seq]
	failed := s.item.Status == queue.AckFailed
	exhausted := failed && int64(one.failures) >= w.retryLimit
	switch {
	case !open || s.item.Status == queue.AckUnknown: // settled earlier in this call, or a status without an effect
	case s.item.Status == queue.AckCompleted || s.item.Status == queue.AckDead || exhausted:
		delete(c.redrives, s.seq)
		d.changed = true
		d.held += int64(b2i(leased))
		if v.dead = s.item.Status != queue.AckCompleted; v.dead {
			c.park(s, one.failures+int32(b2i(failed)))
		}
	default:
		d.changed, d.ends = true, true
		if failed {
			one.failures++
			one.delayed = w.backoff
			c.redrives[s.seq] = one
		}
	}
}

// finish ends the lease if the call ended it or settled all its messages.
func (d *redelivered) finish(w *world, p *partition, c *cursor) {
	switch {
	case !d.changed:
	case d.ends || !c.live || d.before.underRedelivery() && -c.leaseEnd <= d.held:
		w.recomputeReady(p, c)
	default:
		c.leaseEnd += d.held
	}
}

// redriveLetters redrives dead letters and returns their number.
func (w *world) redriveLetters(c *cursor, seqs []int64) (n int64) {
	for _, seq := range seqs {
		one, ok := c.deadLetters[seq]
		if !ok {
			continue
		}
		delete(c.deadLetters, seq)
		if _, twice := c.redrives[seq]; !twice {
			c.redrives[seq] = redrive{failures: one.failures, attempts: one.failures + 1}
		}
		n++
	}
	if n > 0 && !c.live && c.due == 0 {
		c.due = w.step
	}
	return n
}

// deadLetterLatest makes all messages of the newest delivery dead letters. Later steps can redrive them.
func (m *machine) deadLetterLatest(r *rapid.T) {
	if len(m.deliveries) == 0 {
		return
	}
	d := m.deliveries[len(m.deliveries)-1]
	var items []queue.AckItem
	for _, msg := range d.Messages {
		items = append(items, ackOf(d, msg, queue.AckDead))
	}
	m.ack(r, items)
}

// cursorKey is a partition and a group.
type cursorKey struct{ partition, group string }

// cursorsWhere returns the cursors that chosen selects.
func (m *machine) cursorsWhere(chosen func(*cursor) bool) (found []cursorKey) {
	for _, name := range m.world.partitionNames() {
		for _, group := range groups {
			if c := m.world.partitions[name].cursors[group]; c != nil && chosen(c) {
				found = append(found, cursorKey{name, group})
			}
		}
	}
	return found
}

// crashLoop simulates one to five crashes of a consumer that holds redriven messages. Five is more than the largest
// maxDeliveries.
func (m *machine) crashLoop(r *rapid.T) {
	put := m.cursorsWhere(func(c *cursor) bool { return len(c.redrives) > 0 })
	if len(put) == 0 {
		m.redrive(r)
		return
	}
	at := rapid.SampledFrom(put).Draw(r, "redriven")
	p := m.world.partitions[at.partition]
	for range rapid.IntRange(1, 5).Draw(r, "crashes") {
		if m.world.partitions[at.partition].cursors[at.group].live {
			m.step()
			m.expireIn(r, m.world.partitions[at.partition], at.group)
		}
		m.claimFor(r, &queue.PopRequest{Partition: &p.name, Partitions: 1, Group: at.group})
	}
}

// failAgain makes one redriven message fail. If the queue has a retryDelay, the message is then delayed. If no redriven
// message is ready, failAgain first creates one.
func (m *machine) failAgain(r *rapid.T) {
	if len(m.cursorsWhere((*cursor).redelivers)) == 0 {
		if len(m.cursorsWhere(func(c *cursor) bool { return len(c.deadLetters) > 0 })) == 0 {
			m.push(r)
			m.claimFor(r, &queue.PopRequest{Partitions: 1, Group: rapid.SampledFrom(groups).Draw(r, "group")})
			m.deadLetterLatest(r)
		}
		m.redrive(r)
	}
	due := m.cursorsWhere((*cursor).redelivers)
	if len(due) == 0 {
		return // the message may have been deleted
	}
	at := rapid.SampledFrom(due).Draw(r, "redriven")
	p := m.world.partitions[at.partition]
	if p.cursors[at.group].live {
		m.step()
		m.expireIn(r, p, at.group)
	}
	m.claimFor(r, &queue.PopRequest{Partition: &p.name, Partitions: 1, Group: at.group})
	if !m.world.partitions[at.partition].cursors[at.group].underRedelivery() {
		return // the message became a dead letter instead (maxDeliveries)
	}
	d := m.deliveries[len(m.deliveries)-1]
	m.ack(r, []queue.AckItem{ackOf(d, rapid.SampledFrom(d.Messages).Draw(r, "fails"), queue.AckFailed)})
}

// redrive redrives the dead letters of a message or of a group.
func (m *machine) redrive(r *rapid.T) {
	dead := m.cursorsWhere(func(c *cursor) bool { return len(c.deadLetters) > 0 })
	if len(dead) == 0 {
		m.deadLetterLatest(r)
		return
	}
	m.step()
	at := rapid.SampledFrom(dead).Draw(r, "letters")
	group, name := at.group, at.partition
	p := m.world.partitions[name]
	c := p.cursors[group]
	seqs := slices.Sorted(maps.Keys(c.deadLetters))
	if rapid.IntRange(0, 2).Draw(r, "one") == 2 {
		seq := rapid.SampledFrom(seqs).Draw(r, "message")
		n, err := m.letters.Retry(m.t.Context(), p.id, p.log[seq-1].transactionID, &group)
		require.NoError(r, err)
		m.agree(r, fmt.Sprintf("redrive %s for %s", fmt.Sprintf("%s#%d", p.name, seq), group), fmt.Sprint(m.world.redriveLetters(c, []int64{seq})), fmt.Sprint(n))
		return
	}
	done, err := m.letters.Redrive(m.t.Context(), deadletter.Filter{Queue: &m.queue, Group: &group, Partition: &name}, 0, false)
	require.NoError(r, err)
	done.AsOf = deadletter.AsOf{} // the model has no snapshots
	want := deadletter.Result{Matched: int64(len(seqs)), Taken: m.world.redriveLetters(c, seqs)}
	m.agree(r, fmt.Sprintf("redrive %s for %s", name, group), fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", done))
}
