package model_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// leaseTime is the lease time of a queue created by a push.
var leaseTime = queue.DefaultDefaults().LeaseTime

// ackLatest acknowledges some messages of the newest delivery.
func (m *machine) ackLatest(r *rapid.T) { m.ackOneOf(r, 1) }

// ackDelivery acknowledges some messages of a recent delivery under its lease. The lease may have ended, and the messages
// may be acknowledged already.
func (m *machine) ackDelivery(r *rapid.T) { m.ackOneOf(r, 4) }

func (m *machine) ackOneOf(r *rapid.T, newest int) {
	if len(m.deliveries) == 0 {
		return
	}
	d := m.deliveries[len(m.deliveries)-1-rapid.IntRange(0, min(newest, len(m.deliveries))-1).Draw(r, "delivery")]
	from := rapid.IntRange(0, len(d.Messages)-1).Draw(r, "from")
	upto := rapid.IntRange(from+1, min(from+3, len(d.Messages))).Draw(r, "upto")
	status := drawStatus(r)
	var items []queue.AckItem
	for _, msg := range d.Messages[from:upto] {
		if rapid.Bool().Draw(r, "another status") {
			status = drawStatus(r)
		}
		items = append(items, ackOf(d, msg, status))
	}
	m.ack(r, items)
}

func drawStatus(r *rapid.T) queue.AckStatus {
	return rapid.SampledFrom([]queue.AckStatus{
		queue.AckCompleted, queue.AckFailed, queue.AckCompleted, queue.AckFailed, queue.AckRetry, queue.AckDead, queue.AckUnknown,
	}).Draw(r, "status")
}

func ackOf(d queue.Delivery, msg queue.Message, status queue.AckStatus) queue.AckItem {
	item := queue.AckItem{
		TransactionID: msg.TransactionID, PartitionID: msg.Partition.ID.String(), Group: d.Group, Status: status,
	}
	if !d.LeaseID.IsZero() {
		item.LeaseID = d.LeaseID.String()
	}
	return item
}

// ackAnything acknowledges messages of any partition, in any order, for any group. The lease may be any lease or none.
func (m *machine) ackAnything(r *rapid.T) {
	items := make([]queue.AckItem, rapid.IntRange(1, 4).Draw(r, "acks"))
	for i := range items {
		item := &items[i]
		item.Group, item.Status = rapid.SampledFrom(groups).Draw(r, "group"), drawStatus(r)
		item.Error = rapid.SampledFrom([]string{"", "boom"}).Draw(r, "error")
		item.LeaseID = rapid.SampledFrom([]string{"", m.anyLease(r).String(), strings.ToUpper(m.anyLease(r).String()), "none"}).Draw(r, "lease")
		item.TransactionID, item.PartitionID = "t1", "nowhere"
		if p := m.world.partitions[rapid.SampledFrom(partitions).Draw(r, "partition")]; p != nil {
			item.PartitionID = p.id.String()
			if seq := rapid.IntRange(0, len(p.log)).Draw(r, "message"); seq > 0 {
				item.TransactionID = p.log[seq-1].transactionID
			}
		}
	}
	m.ack(r, items)
}

// ack sends acks and compares the answers. If the queue of a message is deleted, the store may report any error of a
// missing message, group or lease.
func (m *machine) ack(r *rapid.T, items []queue.AckItem) {
	s := m.store(r)
	var text []string
	for _, item := range items {
		lease := item.LeaseID
		if id, err := queue.ParseID(item.LeaseID); err == nil {
			lease = m.names.lease(id)
		}
		text = append(text, fmt.Sprintf("%s %s for %s under %q", m.messageText(item), statusText[item.Status], item.Group, lease))
	}
	results, err := s.Ack(m.t.Context(), items)
	require.NoError(r, err)
	require.Len(r, results, len(items))
	want := m.world.ack(items)
	got := make([]ackAnswer, len(results))
	for i, result := range results {
		got[i] = ackAnswer{success: result.Success, dead: result.DeadLettered, err: result.Error}
		require.Equal(r, result.Success, result.Resolved)
		if want[i].released = want[i].released && want[i].success; result.Success {
			got[i].released = result.LeaseReleased
		}
		id, err := queue.ParseID(items[i].PartitionID)
		p := m.world.partitionOf(id)
		switch {
		case err == nil && p == nil && (got[i].err == neverPopped || got[i].err == staleLease):
			got[i].err = notFound // an instance that remembers the deleted partition reports its missing cursor
		case p != nil:
			require.Equal(r, []string{m.queue, p.name}, []string{result.Queue, result.Partition})
			if p.find(items[i].TransactionID) == nil && want[i].err == staleLease && got[i].err == notFound {
				want[i].err = notFound // the lease of a deleted group is gone, so the deleted message is not found
			}
		}
	}
	m.agree(r, "ack "+strings.Join(text, ", "), fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
}

var statusText = map[queue.AckStatus]string{
	queue.AckCompleted: "completed", queue.AckFailed: "failed", queue.AckRetry: "retry", queue.AckDead: "dlq", queue.AckUnknown: "odd",
}

func (m *machine) messageText(item queue.AckItem) string {
	for _, p := range m.world.partitions {
		if one := p.find(item.TransactionID); one != nil && p.id.String() == item.PartitionID {
			return m.names.message(one.id)
		}
	}
	return "a missing message"
}

// anyLease draws one of the newest leases, or a lease that never existed.
func (m *machine) anyLease(r *rapid.T) queue.ID {
	at := rapid.IntRange(0, 4).Draw(r, "lease")
	if at >= len(m.leases) {
		return queue.ID{15: 1}
	}
	return m.leases[len(m.leases)-1-at]
}

func (m *machine) extend(r *rapid.T) {
	s, lease := m.store(r), m.anyLease(r)
	d := rapid.SampledFrom([]time.Duration{time.Second, 2 * leaseTime}).Draw(r, "extension")
	began := time.Now()
	until, err := s.Extend(m.t.Context(), lease, d)
	ended := time.Now()
	held := m.world.holders(lease)
	want := queue.CodeNotFound
	if len(held) > 0 {
		want = queue.CodeLeaseGone
	}
	for _, c := range held {
		if c.live {
			want = ""
			// Postgres stores microseconds. The test and Postgres read the same clock.
			low, high := latest(c.until, began.Add(d-time.Microsecond)), latest(c.until, ended.Add(d))
			require.True(r, !until.Before(low) && !until.After(high), "the lease ends at %s, but must end between %s and %s", until, low, high)
			c.until = until
		}
	}
	m.agree(r, fmt.Sprintf("extend %s by %s", m.names.lease(lease), d), string(want), string(queue.CodeOf(err)))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// end ends a lease: it expires, or it is released, or the queue is deleted.
func (m *machine) end(r *rapid.T) {
	switch how := rapid.IntRange(0, 15).Draw(r, "how"); {
	case how < 8:
		m.expire(r)
	case how < 13:
		m.release(r)
	case how < 15: // rarely, so that queues live long enough to have a history
		m.remove(r, false)
	default:
		m.remove(r, true)
	}
}

func (m *machine) release(r *rapid.T) {
	s, lease := m.store(r), m.anyLease(r)
	require.NoError(r, s.Release(m.t.Context(), lease))
	m.world.release(lease)
	r.Logf("release %s", m.names.lease(lease))
}

// expire ends a live lease in one partition by moving its end into the past.
func (m *machine) expire(r *rapid.T) {
	m.step()
	live := m.cursorsWhere(func(c *cursor) bool { return c.live })
	if len(live) == 0 {
		return
	}
	at := rapid.SampledFrom(live).Draw(r, "lease")
	m.expireIn(r, m.world.partitions[at.partition], at.group)
}

// expireIn ends the live lease of a group in a partition.
func (m *machine) expireIn(r *rapid.T, p *partition, group string) {
	tag, err := m.pool.Exec(m.t.Context(), `
		UPDATE belfry.cursor c SET lease_until = statement_timestamp(), ready_at = statement_timestamp()
		  FROM belfry.partition p, belfry.consumer_group g
		 WHERE p.uid = $1 AND g.queue_id = p.queue_id AND g.name = $2
		   AND c.partition_id = p.id AND c.group_id = g.id AND c.lease_id = $3`,
		[16]byte(p.id), group, [16]byte(p.cursors[group].lease))
	require.NoError(r, err)
	require.EqualValues(r, 1, tag.RowsAffected())
	c := p.cursors[group]
	c.live, c.due = false, m.world.step
	r.Logf("%s expires in %s for %s", m.names.lease(c.lease), p.name, group)
}

// remove deletes the queue. The test draws whether its rows are purged at once.
func (m *machine) remove(r *rapid.T, purge bool) {
	m.step()
	existed, err := m.catalog.Delete(m.t.Context(), m.queue)
	require.NoError(r, err)
	want := m.world.partitions != nil
	m.world.remove()
	if purge {
		require.NoError(r, m.catalog.Purge(m.t.Context()))
	}
	m.agree(r, fmt.Sprintf("delete, purge %t", purge), fmt.Sprint(want), fmt.Sprint(existed))
}
