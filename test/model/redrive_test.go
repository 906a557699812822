package model_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// redrive is a dead letter that was put back.
type redrive struct {
	failures, attempts int32
	// deliveries are those since it was put back.
	deliveries int32
	// lease is that of the latest delivery, live or not.
	lease queue.ID
	// rests: it failed, and is not delivered before time has passed.
	rests bool
}

// first is the first message that was put back; it decides when they are due.
func (p *place) first() (one redrive, ok bool) {
	if len(p.redrives) == 0 {
		return one, false
	}
	return p.redrives[slices.Min(slices.Collect(maps.Keys(p.redrives)))], true
}

// redelivers: what was put back is due. restsFirst: it rests.
func (p *place) redelivers() bool {
	one, ok := p.first()
	return ok && !one.rests
}

func (p *place) restsFirst() bool {
	one, ok := p.first()
	return ok && one.rests
}

func (p *place) underRedelivery() bool { return p.live && p.leaseEnd < 0 }

// redeliver delivers what was put back, before the log and in its order; a lease
// counts the messages it holds. One that was delivered too often since is a dead
// letter again, and one that has a single delivery left comes alone. Those behind
// one that rests wait for it.
func (w *world) redeliver(l *lane, p *place, autoAck bool, lease queue.ID, room int) []string {
	seqs := slices.Sorted(maps.Keys(p.redrives))
	var messages []string
	for _, seq := range seqs[:min(len(seqs), room)] {
		one := p.redrives[seq]
		if one.rests {
			break
		}
		if w.deliveries > 0 && one.deliveries >= w.deliveries {
			p.giveUp(seq)
			continue
		}
		last := !autoAck && one.deliveries == w.deliveries-1
		if last && len(messages) > 0 {
			break
		}
		if autoAck {
			delete(p.redrives, seq)
			one.attempts = 0
		} else {
			one.attempts, one.deliveries, one.lease = one.attempts+1, one.deliveries+1, lease
			p.redrives[seq] = one
		}
		messages = append(messages, fmt.Sprintf("%s#%d attempt %d", l.name, seq, one.attempts))
		if last {
			break
		}
	}
	if autoAck || len(messages) == 0 {
		w.rearm(l, p)
	} else {
		p.lease, p.live, p.leaseEnd, p.due = lease, true, -int64(len(messages)), 0
	}
	return messages
}

// giveUp makes what was put back a dead letter again.
func (p *place) giveUp(seq int64) {
	one := p.redrives[seq]
	delete(p.redrives, seq)
	if _, dead := p.letters[seq]; !dead {
		reason := fmt.Sprintf("delivered %d times since it was redriven, without success (maxDeliveries)", one.deliveries)
		p.letters[seq] = letter{one.attempts, reason}
	}
}

// unattempt undoes the delivery of a lease that was given back.
func (p *place) unattempt(lease queue.ID) {
	for seq, one := range p.redrives {
		if one.lease == lease {
			one.attempts, one.deliveries = max(one.attempts-1, 0), max(one.deliveries-1, 0)
			p.redrives[seq] = one
		}
	}
}

// redelivered is what a call says of messages that were put back.
type redelivered struct {
	before        place
	changed, ends bool
	held          int64
}

// judgeRedriven applies those acks of a call that are about messages that were
// put back, in the order of the call, and returns the others. Each stands for
// itself and moves no cursor.
func (w *world) judgeRedriven(p *place, list []saying, verdicts []verdict) (others []saying, d redelivered) {
	d.before = *p
	d.before.redrives = maps.Clone(p.redrives)
	for _, s := range slices.SortedStableFunc(slices.Values(list), func(a, b saying) int { return a.at - b.at }) {
		one, put := d.before.redrives[s.seq]
		leased := put && one.lease == p.lease && !p.lease.IsZero()
		mine := s.item.LeaseID != "" && p.live && strings.ToLower(s.item.LeaseID) == p.lease.String()
		switch {
		case put && (leased || s.item.LeaseID == "" && (s.seq <= p.committed || slices.Contains(p.skip, s.seq))):
			if s.item.LeaseID != "" && !mine {
				verdicts[s.at].err = staleLease
				continue
			}
			verdicts[s.at].success = s.item.Status != queue.AckUnknown
			w.judgeOne(p, s, leased, &verdicts[s.at], &d)
		case mine && p.leaseEnd < 0:
			verdicts[s.at].success = s.item.Status != queue.AckUnknown
		default:
			others = append(others, s)
		}
	}
	slices.SortStableFunc(others, func(a, b saying) int { return int(a.seq - b.seq) })
	return others, d
}

func (w *world) judgeOne(p *place, s saying, leased bool, v *verdict, d *redelivered) {
	one, open := p.redrives[s.seq]
	failed := s.item.Status == queue.AckFailed
	exhausted := failed && int64(one.failures) >= w.retryLimit
	switch {
	case !open || s.item.Status == queue.AckUnknown: // settled in this call, or nothing said
	case s.item.Status == queue.AckCompleted || s.item.Status == queue.AckDead || exhausted:
		delete(p.redrives, s.seq)
		d.changed = true
		d.held += int64(b2i(leased))
		if v.dead = s.item.Status != queue.AckCompleted; v.dead {
			p.park(s, one.failures+int32(b2i(failed)))
		}
	default:
		d.changed, d.ends = true, true
		if failed {
			one.failures++
			one.rests = w.backoff
			p.redrives[s.seq] = one
		}
	}
}

// finish ends the lease where the call ended it, or settled all it held.
func (d *redelivered) finish(w *world, l *lane, p *place) {
	switch {
	case !d.changed:
	case d.ends || !p.live || d.before.underRedelivery() && -p.leaseEnd <= d.held:
		w.rearm(l, p)
	default:
		p.leaseEnd += d.held
	}
}

// putBack puts dead letters back, and returns how many.
func (w *world) putBack(p *place, seqs []int64) (n int64) {
	for _, seq := range seqs {
		one, ok := p.letters[seq]
		if !ok {
			continue
		}
		delete(p.letters, seq)
		if _, twice := p.redrives[seq]; !twice {
			p.redrives[seq] = redrive{failures: one.failures, attempts: one.failures + 1}
		}
		n++
	}
	if n > 0 && !p.live && p.due == 0 {
		p.due = w.step
	}
	return n
}

// bury dead-letters all of the newest delivery, so that there is something to put
// back.
func (m *machine) bury(r *rapid.T) {
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

// home is where a group has a place.
type home struct{ lane, group string }

// homes are those that are chosen.
func (m *machine) homes(chosen func(*place) bool) (found []home) {
	for _, name := range m.world.laneNames() {
		for _, group := range groups {
			if p := m.world.lanes[name].places[group]; p != nil && chosen(p) {
				found = append(found, home{name, group})
			}
		}
	}
	return found
}

// crashLoop lets consumers crash over what was put back, as often as maxDeliveries
// may say, and once more.
func (m *machine) crashLoop(r *rapid.T) {
	put := m.homes(func(p *place) bool { return len(p.redrives) > 0 })
	if len(put) == 0 {
		m.redrive(r)
		return
	}
	at := rapid.SampledFrom(put).Draw(r, "redriven")
	l := m.world.lanes[at.lane]
	for range rapid.IntRange(1, 5).Draw(r, "crashes") {
		if m.world.lanes[at.lane].places[at.group].live {
			m.step()
			m.expireIn(r, m.world.lanes[at.lane], at.group)
		}
		m.claimFor(r, &queue.PopRequest{Partition: &l.name, Partitions: 1, Group: at.group})
	}
}

// failAgain lets one message fail that was put back, so that it rests where the
// queue has a retryDelay. Where none is due, one is buried and put back, if need be
// after a push and a pop.
func (m *machine) failAgain(r *rapid.T) {
	if len(m.homes((*place).redelivers)) == 0 {
		if len(m.homes(func(p *place) bool { return len(p.letters) > 0 })) == 0 {
			m.push(r)
			m.claimFor(r, &queue.PopRequest{Partitions: 1, Group: rapid.SampledFrom(groups).Draw(r, "group")})
			m.bury(r)
		}
		m.redrive(r)
	}
	due := m.homes((*place).redelivers)
	if len(due) == 0 {
		return // its message may be gone
	}
	at := rapid.SampledFrom(due).Draw(r, "redriven")
	l := m.world.lanes[at.lane]
	if l.places[at.group].live {
		m.step()
		m.expireIn(r, l, at.group)
	}
	m.claimFor(r, &queue.PopRequest{Partition: &l.name, Partitions: 1, Group: at.group})
	if !m.world.lanes[at.lane].places[at.group].underRedelivery() {
		return // it was given up instead (maxDeliveries)
	}
	d := m.deliveries[len(m.deliveries)-1]
	m.ack(r, []queue.AckItem{ackOf(d, rapid.SampledFrom(d.Messages).Draw(r, "fails"), queue.AckFailed)})
}

// redrive puts the dead letters of a message, or those of a group, back.
func (m *machine) redrive(r *rapid.T) {
	dead := m.homes(func(p *place) bool { return len(p.letters) > 0 })
	if len(dead) == 0 {
		m.bury(r)
		return
	}
	m.step()
	at := rapid.SampledFrom(dead).Draw(r, "letters")
	group, name := at.group, at.lane
	l := m.world.lanes[name]
	p := l.places[group]
	seqs := slices.Sorted(maps.Keys(p.letters))
	if rapid.IntRange(0, 2).Draw(r, "one") == 2 {
		seq := rapid.SampledFrom(seqs).Draw(r, "message")
		n, err := m.letters.Retry(m.t.Context(), l.id, l.log[seq-1].transactionID, &group)
		require.NoError(r, err)
		m.agree(r, fmt.Sprintf("redrive %s for %s", l.at(seq), group), fmt.Sprint(m.world.putBack(p, []int64{seq})), fmt.Sprint(n))
		return
	}
	done, err := m.letters.Redrive(m.t.Context(), deadletter.Filter{Queue: &m.queue, Group: &group, Partition: &name}, 0, false)
	require.NoError(r, err)
	want := deadletter.Result{Matched: int64(len(seqs)), Taken: m.world.putBack(p, seqs)}
	m.agree(r, fmt.Sprintf("redrive %s for %s", name, group), fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", done))
}
