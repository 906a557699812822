package transaction

import (
	"context"
	"hash/fnv"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlStreamLock     = sql.Query("engine/store/stream_lock")
	sqlStreamChange   = sql.Query("engine/store/stream_change")
	sqlStreamRedrives = sql.Query("engine/store/stream_redrives")
)

// cycleStripes is the number of rows of belfry.stream_cycle. Cycles that use the same row run one after
// the other.
const cycleStripes = 1024

// errPartitionNotFound is the refusal of a cycle in a partition that does not exist.
const errPartitionNotFound = "Partition not found"

// errStale is the refusal of a cycle that emits a window after another cycle has emitted it.
const errStale = "A key to delete does not exist: another cycle has emitted it; read the state again"

// cycle is a cycle of a stream in a call.
type cycle struct {
	*queue.Cycle
	partition *queue.Partition // nil if the partition does not exist
	// deletes is the number of keys that the last try deletes. deleted is the number of these keys
	// that existed.
	deletes, deleted int64
}

// resolve finds the partition of the cycle of t, if t has one.
func (r *Runner) resolve(ctx context.Context, t *call) error {
	c := t.cycle
	if c == nil {
		return nil
	}
	if id, err := queue.ParseID(c.Partition); err == nil {
		found, err := r.Names.ByIDs(ctx, []queue.ID{id})
		if err != nil {
			return err
		}
		c.partition = found[id]
	}
	if c.partition == nil {
		t.failure = errPartitionNotFound
	}
	return nil
}

// stripes returns the lock stripe of the partition.
func (c *cycle) stripes() []batch.LockStripe {
	if c == nil {
		return nil
	}
	return []batch.LockStripe{batch.LockStripeOf(c.partition.Key)}
}

// partitions returns the partition, in a list.
func (c *cycle) partitions() []*queue.Partition {
	if c == nil {
		return nil
	}
	return []*queue.Partition{c.partition}
}

// queueLock adds the locks of the cycle to b. The cycle takes them before the locks of partitions, so a
// cycle that waits for another cycle holds no other lock. readLock reads the result.
func (c *cycle) queueLock(b *pgx.Batch) {
	if c == nil {
		return
	}
	h := fnv.New32a()
	h.Write(c.Query[:]) // a hash never returns an error
	h.Write(c.partition.ID[:])
	b.Queue(sqlStreamLock, [16]byte(c.Query), int32(h.Sum32()%cycleStripes))
}

// readLock reads the result of queueLock. If the query does not exist, t is refused.
func (t *call) readLock(results pgx.BatchResults) error {
	if t.cycle == nil {
		return nil
	}
	var id int64
	found := false
	err := pipeline.ForEach(results, "beginning a cycle", []any{&id}, func() error {
		found = true
		return nil
	})
	if err == nil && !found {
		t.failure = queue.UnknownQuery(t.cycle.Query.String()).Message
	}
	return err
}

// queueChanges adds the changes of the state to b. readChanges reads the result.
func (c *cycle) queueChanges(b *pgx.Batch) {
	if c == nil || len(c.Changes) == 0 {
		return
	}
	last := make(map[string]int, len(c.Changes)) // the last change of a key replaces earlier changes
	for i := range c.Changes {
		last[c.Changes[i].Key] = i
	}
	keys, values, ends, deleted := []string{}, []string{}, []pgtype.Float8{}, []string{}
	for i := range c.Changes {
		change := &c.Changes[i]
		switch {
		case last[change.Key] != i:
		case change.Value == nil:
			deleted = append(deleted, change.Key)
		default:
			end := pgtype.Float8{}
			if change.WindowEnd != nil {
				end = pgtype.Float8{Float64: *change.WindowEnd, Valid: true}
			}
			keys, values, ends = append(keys, change.Key), append(values, string(change.Value)), append(ends, end)
		}
	}
	c.deletes = int64(len(deleted))
	b.Queue(sqlStreamChange, [16]byte(c.Query), c.partition.Key, [16]byte(c.partition.ID), keys, values, ends, deleted)
}

// readChanges reads the result of queueChanges. If the partition does not exist any more, or is being
// deleted, the error has the SQLSTATE PartitionGone.
func (t *call) readChanges(results pgx.BatchResults) error {
	if t.cycle == nil || len(t.cycle.Changes) == 0 {
		return nil
	}
	found := false
	err := pipeline.ForEach(results, "changing the state of a query", []any{&t.cycle.deleted}, func() error {
		found = true
		return nil
	})
	if err == nil && !found && t.failure == "" {
		err = &pgconn.PgError{Code: postgres.PartitionGone, Message: "the partition of a cycle is gone, or is being deleted"}
	}
	return err
}

// stale reports whether another cycle has changed the state after the client read it. Then this cycle pushes
// and deletes a key that does not exist any more, because another cycle has emitted the window.
func (t *call) stale() bool {
	return t.cycle != nil && len(t.push.Items) > 0 && t.cycle.deleted < t.cycle.deletes
}

// queueRedrives adds the look-up of redriven messages that the lease delivered before the acknowledged
// message. It is needed only if the acknowledged message has to be looked up. A lease delivers either
// redriven messages or messages of the log. readRedrives reads the result.
func (f *flush) queueRedrives(b *pgx.Batch) {
	if f.t.cycle == nil {
		return
	}
	for _, i := range f.call.Found {
		item := &f.call.Items[i]
		if lease, err := queue.ParseID(item.LeaseID); err == nil {
			b.Queue(sqlStreamRedrives, f.call.Partitions[i].Key, item.Group, [16]byte(lease), item.TransactionID)
			f.redrivesOf = append(f.redrivesOf, i)
		}
	}
}

// readRedrives acknowledges the messages that queueRedrives found, because the ack of a cycle completes
// all messages up to its own message.
func (f *flush) readRedrives(results pgx.BatchResults) error {
	for _, i := range f.redrivesOf {
		var seq int64
		err := pipeline.ForEach(results, "finding redriven messages", []any{&seq}, func() error {
			f.addAck(i, seq, queue.AckCompleted)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// completeAcks adds further acks to the ack of a cycle. If the cycle makes a message a dead letter, an
// ack completes the messages before it. Another ack ends the lease, if the cycle asks for that or makes
// a dead letter.
func (f *flush) completeAcks() {
	c := f.t.cycle
	if c == nil {
		return
	}
	for i := range f.t.ackAt {
		seq, status := f.call.Seqs[i], f.call.Items[i].Status
		if seq == 0 {
			continue
		}
		if status == queue.AckDead && seq > 1 {
			f.addAck(i, seq-1, queue.AckCompleted)
		}
		if status == queue.AckDead || c.ReleaseLease {
			f.addAck(i, math.MaxInt64, queue.AckRetry)
		}
	}
}

// addAck adds an ack of another message, with the cursor and the lease of ack i of the client.
func (f *flush) addAck(i int, seq int64, status queue.AckStatus) {
	f.call.Add(i, seq, status)
	f.ackAt = append(f.ackAt, f.t.ackAt[i])
}

// hash adds the cycle to the hash of a transaction.
func (c *cycle) hash(add func(texts ...string)) {
	release := ""
	if c.ReleaseLease {
		release = "release"
	}
	add("cycle", c.Query.String(), c.Partition, release)
	for i := range c.Changes {
		if change := &c.Changes[i]; change.Value == nil {
			add("delete", change.Key)
		} else {
			add("upsert", change.Key, string(change.Value))
		}
	}
}
