package push

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
)

// columns are the parameters of append.sql, by message unless they say by partition. A column that
// no message uses stays empty, and unnest fills it with NULL.
type columns struct {
	counts                []int64              // by partition
	visibleUntil          []pgtype.Timestamptz // by partition
	partitions, nths      []int32
	ids                   [][16]byte
	transactions, payload []string
	traces                []pgtype.UUID
	subs                  []pgtype.Text
	visibleAt             []pgtype.Timestamptz
	encrypted             []bool
	// mayExist: a transaction id may be stored already.
	mayExist bool
}

// QueueAppend adds the statement that stores the messages to b, and marks the calls as tried. ReadStored or readDuplicates
// reads its result. An error means that a payload cannot be sealed; then b is unchanged.
func (f *Flush) QueueAppend(b *pgx.Batch, sealer *seal.Sealer) error {
	n := len(f.Stored)
	c := columns{
		counts: make([]int64, len(f.Partitions)), partitions: make([]int32, n), nths: make([]int32, n),
		ids: make([][16]byte, n), transactions: make([]string, n), payload: make([]string, n),
	}
	partition := 0
	for at, ref := range f.Stored {
		for f.Partitions[partition] != ref.Partition().Key {
			partition++
		}
		c.counts[partition]++
		c.partitions[at], c.nths[at] = int32(partition+1), int32(c.counts[partition])
		c.ids[at] = ref.ID()
		c.transactions[at] = ref.Result().TransactionID
		c.mayExist = c.mayExist || ref.call.Named || ref.call.Tried
		if err := c.setPayload(at, n, ref, sealer); err != nil {
			return err
		}
		c.setOptions(at, n, ref, partition)
	}
	for _, call := range f.calls {
		call.Tried = true
	}
	b.Queue(sqlAppend, f.Partitions, c.counts, pipeline.Array(c.visibleUntil), pipeline.Array(f.sealed), c.partitions, c.nths,
		c.ids, c.transactions, c.payload, pipeline.Array(c.traces), pipeline.Array(c.subs), pipeline.Array(c.visibleAt),
		pipeline.Array(c.encrypted), c.mayExist, pipeline.Array(f.bounded), int64(f.epoch))
	return nil
}

// setPayload sets the payload of the message at index at of n, sealed where the queue wants it.
func (c *columns) setPayload(at, n int, ref ItemRef, sealer *seal.Sealer) error {
	payload := ref.call.Items[ref.Item].Payload
	if ref.Partition().Sealed && !sealer.AllowsPlaintext() {
		sealed, err := sealer.Seal(payload, seal.Message{
			Queue: ref.Partition().Queue, Partition: ref.Partition().Name, ID: ref.ID(),
		})
		if err != nil {
			return fmt.Errorf("sealing a payload: %w", err)
		}
		payload = sealed
		set(&c.encrypted, n, at, true)
	}
	c.payload[at] = string(payload)
	return nil
}

// setOptions sets the optional columns of the message at index at of n.
func (c *columns) setOptions(at, n int, ref ItemRef, partition int) {
	item := &ref.call.Items[ref.Item]
	if !item.TraceID.IsZero() {
		set(&c.traces, n, at, pgtype.UUID{Bytes: item.TraceID, Valid: true})
	}
	if item.ProducerSub != "" {
		set(&c.subs, n, at, pgtype.Text{String: item.ProducerSub, Valid: true})
	}
	if !item.VisibleAt.IsZero() {
		set(&c.visibleAt, n, at, pgtype.Timestamptz{Time: item.VisibleAt, Valid: true})
		if c.visibleUntil == nil || c.visibleUntil[partition].Time.Before(item.VisibleAt) {
			set(&c.visibleUntil, len(c.counts), partition, c.visibleAt[at])
		}
	}
}

// set sets a value of a column of n values, and creates the column at its first value.
func set[T any](column *[]T, n, at int, value T) {
	if *column == nil {
		*column = make([]T, n)
	}
	(*column)[at] = value
}
