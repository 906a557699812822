package reseal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlList   = sql.Query("engine/reseal/list")
	sqlRead   = sql.Query("engine/reseal/read")
	sqlUpdate = sql.Query("engine/reseal/update")
)

// place is the position of a pass: after the message seq of a partition.
type place struct {
	partition string
	seq       int64
}

// message is a message of a page. read sets its payload and key.
type message struct {
	Message
	partitionID, seq, bytes int64
	encrypted               bool
	keyID                   *string
	// payload is nil if it is not needed.
	payload []byte
}

// list returns the next page after at, without payloads. It is empty at the end.
func (r *run) list(ctx context.Context, at place) ([]message, error) {
	for rows := pageRows; ; rows /= 2 {
		page, err := r.listRows(ctx, at, rows)
		switch {
		case err == nil:
			return page, nil
		case !postgres.Unreadable(err) || rows == 1:
			return nil, fmt.Errorf("listing the messages of queue %q after seq %d of partition %q: %w", r.name, at.seq, at.partition, err)
		}
	}
}

func (r *run) listRows(ctx context.Context, at place, limit int) (page []message, err error) {
	rows, _ := r.conn.Query(ctx, sqlList, r.queue, at.partition, at.seq, limit) // rows hold the error
	var m message
	var bytes int64
	_, err = pgx.ForEachRow(rows, []any{&m.partitionID, &m.Partition, &m.seq, &m.ID, &m.TransactionID, &m.bytes}, func() error {
		if bytes += m.bytes; bytes <= pageBytes || len(page) == 0 {
			page = append(page, m)
		}
		return nil
	})
	return page, err
}

// read returns the messages of a page that still exist, with their keys and the payloads that are
// needed.
func (r *run) read(ctx context.Context, page []message) (found []message, err error) {
	partitions, seqs := make([]int64, len(page)), make([]int64, len(page))
	for i := range page {
		partitions[i], seqs[i] = page[i].partitionID, page[i].seq
	}
	rows, _ := r.conn.Query(ctx, sqlRead, partitions, seqs, r.current, r.Check, r.sealClear) // rows hold the error
	var ord int
	var m message
	_, err = pgx.ForEachRow(rows, []any{&ord, &m.encrypted, &m.keyID, &m.payload}, func() error {
		message := page[ord-1]
		message.encrypted, message.keyID, message.payload = m.encrypted, m.keyID, m.payload
		found = append(found, message)
		m.keyID, m.payload = nil, nil // the next row must not overwrite them
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading messages of queue %q: %w", r.name, err)
	}
	return found, nil
}

// reseal decrypts the payloads that read returned, encrypts them with the current key and stores them.
// With Options.Check, it only decrypts them. It returns the counts after the changes.
func (r *run) reseal(ctx context.Context, page []message) (Counts, error) {
	c := newCounts()
	found, err := r.read(ctx, page)
	if err != nil {
		return c, err
	}
	var stale []message
	for _, m := range found {
		key := keyName(m.encrypted, m.keyID)
		c.Messages[key]++
		if m.payload == nil {
			continue
		}
		bound := seal.Message{Queue: r.name, Partition: m.Partition, ID: m.ID}
		if m.encrypted {
			if m.payload, err = r.sealer.Open(m.payload, bound); err != nil {
				c.fail(Failure{m.Message, key, err})
				continue
			}
		}
		if !r.Check {
			if m.payload, err = r.sealer.Seal(m.payload, bound); err != nil {
				return c, fmt.Errorf("sealing message %s: %w", m.ID, err)
			}
			stale = append(stale, m)
		}
	}
	return c, r.store(ctx, stale, &c)
}

// store updates messages to their new payloads, and counts them under the current key.
func (r *run) store(ctx context.Context, stale []message, c *Counts) error {
	if len(stale) == 0 {
		return nil
	}
	n := len(stale)
	partitions, seqs, ids, payloads := make([]int64, n), make([]int64, n), make([][16]byte, n), make([]string, n)
	for i, m := range stale {
		partitions[i], seqs[i], ids[i], payloads[i] = m.partitionID, m.seq, m.ID, string(m.payload)
	}
	rows, _ := r.conn.Query(ctx, sqlUpdate, partitions, seqs, ids, payloads) // rows hold the error
	var ord int
	_, err := pgx.ForEachRow(rows, []any{&ord}, func() error {
		c.Messages[keyName(stale[ord-1].encrypted, stale[ord-1].keyID)]--
		c.Messages[keyName(true, &r.current)]++
		c.Resealed++
		return nil
	})
	if err != nil {
		return fmt.Errorf("updating messages of queue %q: %w", r.name, err)
	}
	c.Locked = n - c.Resealed
	return nil
}
