package model_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// names maps generated ids to names that are the same in every run. So a failure is readable and repeatable.
type names struct{ messages, leases map[queue.ID]string }

func newNames() names {
	return names{messages: map[queue.ID]string{}, leases: map[queue.ID]string{}}
}

func (n names) message(id queue.ID) string { return nameIn(n.messages, id, "an unknown message") }

func (n names) lease(id queue.ID) string { return nameIn(n.leases, id, "an unknown lease") }

func nameIn(table map[queue.ID]string, id queue.ID, unknown string) string {
	if name, ok := table[id]; ok {
		return name
	}
	return unknown
}

// pushed formats an answer of the store in the format of the model.
func (n names) pushed(results []queue.PushResult) []string {
	out := make([]string, len(results))
	for i, result := range results {
		out[i] = "queued as " + n.message(result.MessageID)
		if result.Duplicate {
			out[i] = "duplicate of " + n.message(result.MessageID)
		}
	}
	return out
}

// delivered formats a delivery of the store in the format of the model.
func (m *machine) delivered(d *queue.Delivery) string {
	out := delivered{claimed: d.Partitions, later: d.HasNext}
	for _, msg := range d.Messages {
		text := fmt.Sprintf("%s attempt %d", m.names.message(msg.ID), msg.Attempt)
		p := m.world.partitionOf(msg.Partition.ID)
		switch {
		case p == nil || p.name != msg.Partition.Name || msg.Seq < 1 || msg.Seq > p.last():
			text += " in a wrong partition or position"
		case p.log[msg.Seq-1].id != msg.ID || p.log[msg.Seq-1].transactionID != msg.TransactionID:
			text += fmt.Sprintf(" with seq %d and transaction id %q of another message", msg.Seq, msg.TransactionID)
		case p.log[msg.Seq-1].payload != string(msg.Payload):
			text += " with another payload: " + string(msg.Payload)
		}
		out.messages = append(out.messages, text)
	}
	return out.String()
}

// expect runs the pop on the model. Where the order of partitions is undefined, it chooses the order that the store used.
func (m *machine) expect(r *rapid.T, req *queue.PopRequest, d *queue.Delivery) string {
	seen, got := m.observe(r), m.delivered(d)
	var next *world
	var text string
	var best int
	for _, last := range partitions {
		w := m.world.clone()
		want := w.pop(req, d.LeaseID, last).String()
		for _, c := range w.holders(d.LeaseID) {
			c.until = d.DatabaseNow.Add(leaseTime)
		}
		fit := 1 + b2i(want == got)
		if fit == 2 && slices.Equal(m.names.state(w), seen) {
			fit = 3
		}
		if fit > best {
			next, text, best = w, want, fit
		}
	}
	m.world = next
	return text
}

// check compares all stored rows with the model.
func (m *machine) check(r *rapid.T) {
	require.Equal(r, m.names.state(m.world), m.observe(r), "the model (expected) and the tables (actual) disagree")
}

// cursorText formats one cursor.
func (n names) cursorText(name string, c *cursor, redriven int, ready string) string {
	lease := "no lease"
	if !c.lease.IsZero() {
		lease = fmt.Sprintf("%s up to %d", n.lease(c.lease), c.leaseEnd)
	}
	if c.live {
		lease += " until " + c.until.UTC().Format(time.RFC3339Nano)
	}
	if c.delayed {
		ready += ", delayed"
	}
	return fmt.Sprintf("%s: committed %d skip %v failures %d attempts %d consumed %d expired %d alone until %d, %d redriven, %s, %s",
		name, c.committed, c.skip, c.failures, c.attempts, c.consumed, c.expired, c.aloneUntil, redriven, ready, lease)
}

func letterText(name string, seq int64, one deadLetter) string {
	return fmt.Sprintf("%s: dead letter %d after %d failures: %s", name, seq, one.failures, one.reason)
}

func (n names) redriveText(name string, seq int64, one redrive) string {
	lease := "no lease"
	if !one.lease.IsZero() {
		lease = n.lease(one.lease)
	}
	return fmt.Sprintf("%s: redriven %d after %d failures, %d attempts, %d deliveries, delayed %t, latest with %s",
		name, seq, one.failures, one.attempts, one.deliveries, one.delayed, lease)
}

func (n names) messageText(partition string, seq int64, id queue.ID) string {
	return fmt.Sprintf("%s: message %d is %s", partition, seq, n.message(id))
}

// state formats the tables that the model expects.
func (n names) state(w *world) []string {
	var logs, cursors, letters, redrives, log []string
	for _, name := range w.partitionNames() {
		p := w.partitions[name]
		for _, group := range slices.Sorted(maps.Keys(p.cursors)) {
			c, name := p.cursors[group], name+" for "+group
			ready := "asleep"
			switch {
			case c.live:
				ready = "later"
			case c.due > 0:
				ready = "due"
			case c.delayed && c.committed < p.last() || c.firstDelayed():
				ready = "delayed"
			}
			cursors = append(cursors, n.cursorText(name, c, len(c.redrives), ready))
			for _, seq := range slices.Sorted(maps.Keys(c.deadLetters)) {
				letters = append(letters, letterText(name, seq, c.deadLetters[seq]))
			}
			for _, seq := range slices.Sorted(maps.Keys(c.redrives)) {
				redrives = append(redrives, n.redriveText(name, seq, c.redrives[seq]))
			}
		}
		holes := 0
		for _, one := range p.log {
			if holes += b2i(one.gone); !one.gone {
				log = append(log, n.messageText(name, one.seq, one.id))
			}
		}
		logs = append(logs, fmt.Sprintf("%s: up to %d, %d holes", name, p.last(), holes))
	}
	return slices.Concat(logs, cursors, letters, redrives, log)
}

const (
	readPartitions = `
SELECT p.name, p.last_seq, p.holes + p.trimmed
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
 WHERE q.name = $1 AND q.deleted_at IS NULL
 ORDER BY p.name COLLATE "C"`
	readCursors = `
SELECT p.name || ' for ' || g.name, c.committed,
       ARRAY (SELECT generate_series(lower(s), upper(s) - 1) FROM unnest(c.skip) AS s), c.failures, c.attempts, c.consumed, c.lease_id,
       coalesce(c.lease_until > clock_timestamp(), false), coalesce(c.lease_end, 0), c.lease_until, coalesce(c.redrives, 0),
       c.expired, coalesce(c.alone_until, 0), coalesce(c.retry_at > clock_timestamp(), false),
       CASE WHEN c.ready_at IS NULL THEN 'asleep' WHEN c.ready_at <= clock_timestamp() THEN 'due'
            WHEN c.ready_at = c.lease_until THEN 'later'
            WHEN c.ready_at = c.retry_at OR c.ready_at = (
                SELECT r.retry_at FROM belfry.redrive r WHERE r.partition_id = c.partition_id AND r.group_id = c.group_id
                 ORDER BY r.seq LIMIT 1) THEN 'delayed' ELSE 'at the wrong time' END
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  JOIN belfry.cursor c ON c.partition_id = p.id
  JOIN belfry.consumer_group g ON g.id = c.group_id
 WHERE q.name = $1 AND q.deleted_at IS NULL
 ORDER BY p.name COLLATE "C", g.name COLLATE "C"`
	readLetters = `
SELECT p.name || ' for ' || g.name, d.seq, d.attempts, d.error
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  JOIN belfry.dead_letter d ON d.partition_id = p.id
  JOIN belfry.consumer_group g ON g.id = d.group_id
 WHERE q.name = $1 AND q.deleted_at IS NULL
 ORDER BY p.name COLLATE "C", g.name COLLATE "C", d.seq`
	readRedrives = `
SELECT p.name || ' for ' || g.name, r.seq, r.failures, r.attempts, r.deliveries, coalesce(r.retry_at > clock_timestamp(), false), r.lease_id
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  JOIN belfry.redrive r ON r.partition_id = p.id
  JOIN belfry.consumer_group g ON g.id = r.group_id
 WHERE q.name = $1 AND q.deleted_at IS NULL
 ORDER BY p.name COLLATE "C", g.name COLLATE "C", r.seq`
	readLog = `
SELECT p.name, m.seq, m.id
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  JOIN belfry.message m ON m.partition_id = p.id
 WHERE q.name = $1 AND q.deleted_at IS NULL
 ORDER BY p.name COLLATE "C", m.seq`
)

// observe formats the tables of the database in the format of state.
func (m *machine) observe(r *rapid.T) []string {
	var out []string
	b := &pgx.Batch{}
	read := func(sql string, format func() string, into ...any) {
		b.Queue(sql, m.queue).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, into, func() error {
				out = append(out, format())
				return nil
			})
			return err
		})
	}
	var name, ready string
	var seq, last, holes int64
	var redriven int
	var lease pgtype.UUID
	read(readPartitions, func() string { return fmt.Sprintf("%s: up to %d, %d holes", name, last, holes) }, &name, &last, &holes)
	var c cursor
	var until pgtype.Timestamptz
	read(readCursors, func() string {
		one := c
		one.lease, one.until, c.skip = lease.Bytes, until.Time, nil
		return m.names.cursorText(name, &one, redriven, ready)
	}, &name, &c.committed, &c.skip, &c.failures, &c.attempts, &c.consumed, &lease, &c.live, &c.leaseEnd, &until, &redriven,
		&c.expired, &c.aloneUntil, &c.delayed, &ready)
	var letter deadLetter
	read(readLetters, func() string { return letterText(name, seq, letter) }, &name, &seq, &letter.failures, &letter.reason)
	var back redrive
	read(readRedrives, func() string {
		back.lease = lease.Bytes
		return m.names.redriveText(name, seq, back)
	}, &name, &seq, &back.failures, &back.attempts, &back.deliveries, &back.delayed, &lease)
	var id [16]byte
	read(readLog, func() string { return m.names.messageText(name, seq, id) }, &name, &seq, &id)
	require.NoError(r, m.pool.SendBatch(m.t.Context(), b).Close())
	return out
}
