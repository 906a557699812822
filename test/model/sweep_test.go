package model_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/sql"
)

// evict is a sweep of one partition. It expires old messages, and deletes old messages that some group has not passed,
// or that have no readers. It keeps messages held by a live lease, and dead letters.
func (w *world) evict(l *lane) {
	if free, ok := l.lowest(func(p *place) bool { return !p.live }); ok && w.expires {
		if upto := l.oldest(max(l.trimmed, free), nil); upto > 0 {
			w.expire(l, upto)
			w.move(l, upto)
		}
	}
	low, _ := l.lowest(func(*place) bool { return true })
	start := max(l.trimmed, low)
	if upto := l.oldest(start, l.held); upto > start && w.waits {
		for i := range l.log[start:upto] {
			m := &l.log[start+int64(i)]
			m.gone = m.gone || m.old && !l.held(m.seq) && !l.kept(m.seq)
		}
		w.move(l, upto)
	}
	l.trimmed = l.last()
	if first := l.next(0); first != nil {
		l.trimmed = first.seq - 1
	}
	w.move(l, l.trimmed)
}

// lowest returns the lowest committed seq of the chosen cursors.
func (l *lane) lowest(chosen func(*place) bool) (low int64, ok bool) {
	for _, p := range l.places {
		if chosen(p) && (!ok || p.committed < low) {
			low, ok = p.committed, true
		}
	}
	return low, ok
}

// oldest returns the seq of the last old message after a seq that is not held, or 0.
func (l *lane) oldest(start int64, held func(int64) bool) (upto int64) {
	for _, m := range l.log[start:] {
		if !m.gone && m.old && (held == nil || !held(m.seq)) {
			upto = m.seq
		}
	}
	return upto
}

// held reports whether a live lease covers the message.
func (l *lane) held(seq int64) bool {
	for _, p := range l.places {
		if p.live && seq > p.committed && seq <= p.leaseEnd {
			return true
		}
	}
	return false
}

// kept reports whether the message is a dead letter of some group, or was redriven.
func (l *lane) kept(seq int64) bool {
	for _, p := range l.places {
		_, dead := p.letters[seq]
		if _, put := p.redrives[seq]; dead || put {
			return true
		}
	}
	return false
}

// expire dead-letters the expired messages of groups without a live lease.
func (w *world) expire(l *lane, upto int64) {
	for _, p := range l.places {
		if p.live || !w.buries || p.committed >= upto {
			continue
		}
		for _, m := range l.log[p.committed:upto] {
			if _, dead := p.letters[m.seq]; m.gone || dead || slices.Contains(p.skip, m.seq) {
				continue
			}
			attempts := int32(0)
			if m.seq == p.committed+1 {
				attempts = p.attempts
			}
			p.letters[m.seq] = letter{attempts, fmt.Sprintf("expired after %d s", expireSeconds)}
		}
	}
}

// move moves cursors without a live lease forward to a seq.
func (w *world) move(l *lane, upto int64) {
	for _, p := range l.places {
		if !p.live && p.committed < upto {
			p.committed, p.attempts, p.failures, p.rests = upto, 0, 0, false
			p.skip = beyond(p.skip, upto)
			w.rearm(l, p)
		}
	}
}

// empty reports whether the partition has neither messages nor dead letters.
func (l *lane) empty() bool {
	for _, p := range l.places {
		if len(p.letters) > 0 {
			return false
		}
	}
	return l.next(0) == nil
}

// sweep sweeps one partition, or removes it if it is idle. Rows of deleted groups and queues are purged first, because
// their dead letters keep messages.
func (m *machine) sweep(r *rapid.T) {
	m.step()
	require.NoError(r, m.catalog.Purge(m.t.Context()))
	l := m.world.lanes[rapid.SampledFrom(partitions).Draw(r, "partition")]
	if l == nil || l.id.IsZero() {
		return
	}
	if l.empty() || rapid.IntRange(0, 3).Draw(r, "idle") == 3 {
		m.removeIdle(r, l)
		return
	}
	if !m.world.waits && !m.world.expires {
		return // no sweep covers the queue
	}
	var where, of int64
	require.NoError(r, m.pool.QueryRow(m.t.Context(), `SELECT p.id, p.queue_id FROM belfry.partition p WHERE p.uid = $1`, [16]byte(l.id)).
		Scan(&where, &of))
	_, err := m.pool.Exec(m.t.Context(), sql.Query("sweep/trim"), of, where, true, int64(1000), nil)
	require.NoError(r, err)
	m.world.evict(l)
	m.forget()
	r.Logf("sweep %s", l.name)
}

// removeIdle tries to remove a partition two days after its last push.
func (m *machine) removeIdle(r *rapid.T, l *lane) {
	const shift = `UPDATE belfry.partition p SET created_at = p.created_at + $2::interval, last_push_at = p.last_push_at + $2::interval
		WHERE p.uid = $1`
	var where int64
	require.NoError(r, m.pool.QueryRow(m.t.Context(), `SELECT p.id FROM belfry.partition p WHERE p.uid = $1`, [16]byte(l.id)).Scan(&where))
	_, err := m.pool.Exec(m.t.Context(), shift, [16]byte(l.id), "-2 days")
	require.NoError(r, err)
	var gone bool
	require.NoError(r, m.pool.QueryRow(m.t.Context(), sql.Query("sweep/idle_remove"), where, int32(1)).Scan(&gone))
	_, err = m.pool.Exec(m.t.Context(), shift, [16]byte(l.id), "2 days") // if it still exists
	require.NoError(r, err)
	want := l.empty()
	if want {
		delete(m.world.lanes, l.name)
	}
	m.forget()
	m.agree(r, "remove "+l.name, fmt.Sprint(want), fmt.Sprint(gone))
}

// forget makes every instance refresh its memory, as after a sweep.
func (m *machine) forget() {
	for _, stores := range m.stores {
		for _, s := range stores {
			s.Doubt()
		}
	}
}
