package model_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/sql"
)

// evict simulates a sweep of one partition. It expires old messages. It also deletes old messages that a group has not
// read, or that have no readers. It keeps dead letters, and messages under a live lease.
func (w *world) evict(p *partition) {
	if free, ok := p.lowest(func(c *cursor) bool { return !c.live }); ok && w.expires {
		if upto := p.oldest(max(p.trimmed, free), nil); upto > 0 {
			w.expire(p, upto)
			w.move(p, upto)
		}
	}
	low, _ := p.lowest(func(*cursor) bool { return true })
	start := max(p.trimmed, low)
	if upto := p.oldest(start, p.held); upto > start && w.waits {
		for i := range p.log[start:upto] {
			m := &p.log[start+int64(i)]
			m.gone = m.gone || m.old && !p.held(m.seq) && !p.kept(m.seq)
		}
		w.move(p, upto)
	}
	p.trimmed = p.last()
	if first := p.next(0); first != nil {
		p.trimmed = first.seq - 1
	}
	w.move(p, p.trimmed)
}

// lowest returns the lowest committed seq of the chosen cursors.
func (p *partition) lowest(chosen func(*cursor) bool) (low int64, ok bool) {
	for _, c := range p.cursors {
		if chosen(c) && (!ok || c.committed < low) {
			low, ok = c.committed, true
		}
	}
	return low, ok
}

// oldest returns the seq of the last old message after start that is not held. Without such a message it returns 0.
func (p *partition) oldest(start int64, held func(int64) bool) (upto int64) {
	for _, m := range p.log[start:] {
		if !m.gone && m.old && (held == nil || !held(m.seq)) {
			upto = m.seq
		}
	}
	return upto
}

// held reports whether a live lease covers the message.
func (p *partition) held(seq int64) bool {
	for _, c := range p.cursors {
		if c.live && seq > c.committed && seq <= c.leaseEnd {
			return true
		}
	}
	return false
}

// kept reports whether the message is a dead letter of some group, or was redriven.
func (p *partition) kept(seq int64) bool {
	for _, c := range p.cursors {
		_, dead := c.deadLetters[seq]
		if _, put := c.redrives[seq]; dead || put {
			return true
		}
	}
	return false
}

// expire makes expired messages dead letters of the groups without a live lease.
func (w *world) expire(p *partition, upto int64) {
	for _, c := range p.cursors {
		if c.live || !w.deadLetters || c.committed >= upto {
			continue
		}
		for _, m := range p.log[c.committed:upto] {
			if _, dead := c.deadLetters[m.seq]; m.gone || dead || slices.Contains(c.skip, m.seq) {
				continue
			}
			attempts := int32(0)
			if m.seq == c.committed+1 {
				attempts = c.attempts
			}
			c.deadLetters[m.seq] = deadLetter{attempts, fmt.Sprintf("expired after %d s", expireSeconds)}
		}
	}
}

// move moves cursors without a live lease forward to a seq.
func (w *world) move(p *partition, upto int64) {
	for _, c := range p.cursors {
		if !c.live && c.committed < upto {
			c.committed, c.attempts, c.failures, c.delayed = upto, 0, 0, false
			c.skip = beyond(c.skip, upto)
			w.recomputeReady(p, c)
		}
	}
}

// empty reports whether the partition has neither messages nor dead letters.
func (p *partition) empty() bool {
	for _, c := range p.cursors {
		if len(c.deadLetters) > 0 {
			return false
		}
	}
	return p.next(0) == nil
}

// sweep sweeps one partition, or tries to remove it as idle. Before that it purges the rows of deleted groups and queues,
// because their dead letters keep messages.
func (m *machine) sweep(r *rapid.T) {
	m.step()
	require.NoError(r, m.catalog.Purge(m.t.Context()))
	p := m.world.partitions[rapid.SampledFrom(partitions).Draw(r, "partition")]
	if p == nil || p.id.IsZero() {
		return
	}
	if p.empty() || rapid.IntRange(0, 3).Draw(r, "idle") == 3 {
		m.removeIdle(r, p)
		return
	}
	if !m.world.waits && !m.world.expires {
		return // the server does not sweep a queue without these options
	}
	var where, of int64
	require.NoError(r, m.pool.QueryRow(m.t.Context(), `SELECT p.id, p.queue_id FROM belfry.partition p WHERE p.uid = $1`, [16]byte(p.id)).
		Scan(&where, &of))
	_, err := m.pool.Exec(m.t.Context(), sql.Query("engine/sweep/trim"), of, where, true, int64(1000), nil, 0)
	require.NoError(r, err)
	m.world.evict(p)
	m.forget()
	r.Logf("sweep %s", p.name)
}

// removeIdle moves the last push of a partition two days into the past and tries to remove the partition.
func (m *machine) removeIdle(r *rapid.T, p *partition) {
	const shift = `UPDATE belfry.partition p SET created_at = p.created_at + $2::interval, last_push_at = p.last_push_at + $2::interval
		WHERE p.uid = $1`
	var where int64
	require.NoError(r, m.pool.QueryRow(m.t.Context(), `SELECT p.id FROM belfry.partition p WHERE p.uid = $1`, [16]byte(p.id)).Scan(&where))
	_, err := m.pool.Exec(m.t.Context(), shift, [16]byte(p.id), "-2 days")
	require.NoError(r, err)
	var gone bool
	require.NoError(r, m.pool.QueryRow(m.t.Context(), sql.Query("engine/sweep/idle_remove"), where, int32(1)).Scan(&gone, nil))
	_, err = m.pool.Exec(m.t.Context(), shift, [16]byte(p.id), "2 days") // no effect if the partition is removed
	require.NoError(r, err)
	want := p.empty()
	if want {
		delete(m.world.partitions, p.name)
	}
	m.forget()
	m.agree(r, "remove "+p.name, fmt.Sprint(want), fmt.Sprint(gone))
}

// forget makes every instance reload what it remembers, as a sweep does.
func (m *machine) forget() {
	for _, stores := range m.stores {
		for _, s := range stores {
			s.OnResync("", events.Peer)
		}
	}
}
