package queenimport

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlOpenPartitions = sql.Query("engine/store/open_partitions")
	sqlQueueConfigure = sql.Query("engine/catalog/queue_configure")
	sqlWake           = sql.Query("engine/store/wake")
	sqlQueueIDs       = sql.Query("engine/queenimport/queue_ids")
	sqlPartitionIDs   = sql.Query("engine/queenimport/partition_ids")
	sqlPartitions     = sql.Query("engine/queenimport/partitions")
	sqlPartitionGrow  = sql.Query("engine/queenimport/partition_grow")
	sqlGroup          = sql.Query("engine/queenimport/group")
	sqlCursors        = sql.Query("engine/queenimport/cursors")
	sqlCreateCursors  = sql.Query("engine/queenimport/create_cursors")
	sqlDeadLetters    = sql.Query("engine/queenimport/dead_letters")
	sqlStream         = sql.Query("engine/queenimport/stream")
	sqlState          = sql.Query("engine/queenimport/state")
	sqlMessages       = sql.Query("engine/queenimport/messages")
)

// namesPage is the maximum number of partitions that one statement creates or wakes.
const namesPage = 1000

// target writes a Belfry database over one connection.
type target struct {
	conn   *pgx.Conn
	sealer *seal.Sealer
}

// lane is a partition of the target. lastAt and lastID are the time and the id of its newest
// message.
type lane struct {
	id, lastSeq int64
	uid, lastID queue.ID
	lastAt      time.Time
}

// open creates the queue with its options and partitions, or finds them. lanes maps the partition ids of
// the source to the partitions of the target. Errors: errForeign if the queue has messages that do not
// come from the source.
func (t *target) open(ctx context.Context, q *queueRow, partitions []partitionRow) (id int64, lanes map[queue.ID]*lane, err error) {
	names := []string{queue.DefaultPartition}
	for i := range partitions {
		if partitions[i].Name != queue.DefaultPartition {
			names = append(names, partitions[i].Name)
		}
	}
	o, more := q.Options, queue.DefaultDefaults().Extensions()
	byName := map[string]int64{}
	err = pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		for first := 0; first < len(names); first += namesPage {
			page := names[first:min(first+namesPage, len(names))]
			same := make([]string, len(page))
			for i := range same {
				same[i] = q.Name
			}
			rows, _ := tx.Query(ctx, sqlOpenPartitions, same, page, o.LeaseTime, o.RetryLimit, o.RetryDelay, more.RetryBackoff, more.RetryDelayMax, nil) // ForEachRow returns its error
			var name string
			var partition int64
			_, err := pgx.ForEachRow(rows, []any{nil, &name, nil, &partition, nil, nil, nil, nil, nil, nil}, func() error {
				byName[name] = partition
				return nil
			})
			if err != nil {
				return err
			}
		}
		if !o.RetentionEnabled { // the source deletes nothing, but the defaults of a Belfry server do
			o.RetentionEnabled, o.RetentionSeconds, o.CompletedRetentionSeconds = true, 0, 0
		}
		err := tx.QueryRow(ctx, sqlQueueConfigure, q.Name, q.Namespace, q.Task, o.LeaseTime, o.RetryLimit, o.DelayedProcessing, o.WindowBuffer,
			o.EncryptionEnabled, o.RetentionEnabled, o.RetentionSeconds, o.CompletedRetentionSeconds, o.MaxWaitTimeSeconds, o.MaxSize, o.Priority,
			o.RetryDelay, o.TTL, o.DeadLetterQueue, o.DLQAfterMaxRetries, more.RetryBackoff, more.RetryDelayMax, int64(0), false, int64(0), "").Scan(&id, nil, nil, nil)
		if err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, sqlQueueIDs, id, [16]byte(q.ID), q.CreatedAt); err != nil {
			return err
		}
		ids, uids, created := make([]int64, len(partitions)), make([][16]byte, len(partitions)), make([]time.Time, len(partitions))
		for i, p := range partitions {
			ids[i], uids[i], created[i] = byName[p.Name], p.ID, p.CreatedAt
		}
		_, err = tx.Exec(ctx, sqlPartitionIDs, ids, uids, created)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("creating queue %q: %w", q.Name, err)
	}
	lanes, err = t.lanes(ctx, id)
	for _, p := range partitions {
		if err == nil && lanes[p.ID] == nil {
			err = fmt.Errorf("%w: queue %q, partition %q", errForeign, q.Name, p.Name)
		}
	}
	return id, lanes, err
}

func (t *target) lanes(ctx context.Context, queueID int64) (map[queue.ID]*lane, error) {
	rows, _ := t.conn.Query(ctx, sqlPartitions, queueID) // CollectRows returns its error
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*lane, error) {
		l := &lane{}
		return l, row.Scan(&l.id, uid(&l.uid), &l.lastSeq, (*zeronull.Timestamptz)(&l.lastAt), uid(&l.lastID))
	})
	if err != nil {
		return nil, fmt.Errorf("listing the partitions of the target: %w", err)
	}
	lanes := make(map[queue.ID]*lane, len(list))
	for _, l := range list {
		lanes[l.uid] = l
	}
	return lanes, nil
}

var messageColumns = []string{
	"partition_id", "seq", "created_at", "id", "trace_id", "encrypted", "transaction_id", "producer_sub", "payload",
}

// store appends messages to a partition in one transaction.
func (t *target) store(ctx context.Context, q *queueRow, p *partitionRow, l *lane, messages []messageRow) error {
	sealed := q.Options.EncryptionEnabled && t.sealer.HasKey()
	payloads := make([]string, len(messages))
	for i := range messages {
		payloads[i] = messages[i].Payload
		if sealed {
			text, err := t.sealer.Seal([]byte(payloads[i]), seal.Message{Queue: q.Name, Partition: p.Name, ID: messages[i].ID})
			if err != nil {
				return err
			}
			payloads[i] = string(text)
		}
	}
	newest := &messages[len(messages)-1]
	err := pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlPartitionGrow, l.id, l.lastSeq+int64(len(messages)), newest.CreatedAt, l.lastSeq)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%w: queue %q, partition %q", errForeign, q.Name, p.Name)
		}
		if err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"belfry", "message"}, messageColumns, pgx.CopyFromSlice(len(messages), func(i int) ([]any, error) {
			m := &messages[i]
			return []any{
				l.id, l.lastSeq + int64(i) + 1, m.CreatedAt, [16]byte(m.ID), zeronull.UUID(m.TraceID), sealed, m.TransactionID,
				zeronull.Text(m.ProducerSub), payloads[i],
			}, nil
		}))
		return err
	})
	if err != nil {
		return fmt.Errorf("storing messages of queue %q, partition %q: %w", q.Name, p.Name, err)
	}
	l.lastSeq, l.lastAt, l.lastID = l.lastSeq+int64(len(messages)), newest.CreatedAt, newest.ID
	return nil
}

// follow creates the groups of a queue with their positions, and its dead letters, in one
// transaction.
func (t *target) follow(ctx context.Context, queueID int64, places []placeRow, subscriptions []subscriptionRow, dead []deadRow) (groups int, err error) {
	starts := map[string]subscriptionRow{}
	byGroup := map[string][]placeRow{}
	for _, s := range subscriptions {
		starts[s.Group], byGroup[s.Group] = s, nil
	}
	for _, p := range places {
		byGroup[p.Group] = append(byGroup[p.Group], p)
	}
	for _, d := range dead {
		if _, known := byGroup[d.Group]; !known {
			byGroup[d.Group] = nil
		}
	}
	err = pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		for name, groupPlaces := range byGroup {
			start := starts[name]
			start.Group = name
			if err := followGroup(ctx, tx, queueID, start, groupPlaces); err != nil {
				return fmt.Errorf("creating group %q: %w", name, err)
			}
		}
		return storeDead(ctx, tx, queueID, dead)
	})
	return len(byGroup), err
}

func followGroup(ctx context.Context, tx pgx.Tx, queueID int64, start subscriptionRow, places []placeRow) error {
	mode := string(queue.SubscribeAll)
	if !start.From.IsZero() {
		mode = string(queue.SubscribeFrom)
		if start.Mode == string(queue.SubscribeNew) {
			mode = start.Mode
		}
	}
	var group int64
	if err := tx.QueryRow(ctx, sqlGroup, queueID, start.Group, mode, zeronull.Timestamptz(start.From)).Scan(&group); err != nil {
		return err
	}
	n := len(places)
	uids, ids := make([][16]byte, n), make([][16]byte, n)
	at, consumed, failures := make([]zeronull.Timestamptz, n), make([]int64, n), make([]int32, n)
	for i, p := range places {
		uids[i], ids[i], at[i], consumed[i], failures[i] = p.Partition, p.ID, zeronull.Timestamptz(p.At), p.Consumed, int32(p.Failures)
	}
	if _, err := tx.Exec(ctx, sqlCursors, group, uids, queueID, at, ids, consumed, failures); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqlCreateCursors, group, queueID, zeronull.Timestamptz(start.From))
	return err
}

func storeDead(ctx context.Context, tx pgx.Tx, queueID int64, dead []deadRow) error {
	n := len(dead)
	uids, transactions, groups := make([][16]byte, n), make([]string, n), make([]string, n)
	texts, attempts, at := make([]zeronull.Text, n), make([]int32, n), make([]time.Time, n)
	for i, d := range dead {
		uids[i], transactions[i], groups[i], texts[i], attempts[i], at[i] = d.Partition, d.TransactionID, d.Group, zeronull.Text(d.Error), int32(d.Failures), d.FailedAt
	}
	if _, err := tx.Exec(ctx, sqlDeadLetters, queueID, uids, transactions, groups, texts, attempts, at); err != nil {
		return fmt.Errorf("storing dead letters: %w", err)
	}
	return nil
}

// wake makes the cursors of partitions ready if they have messages to deliver.
func (t *target) wake(ctx context.Context, lanes map[queue.ID]*lane) error {
	ids := make([]int64, 0, len(lanes))
	for _, l := range lanes {
		ids = append(ids, l.id)
	}
	for first := 0; first < len(ids); first += namesPage {
		if _, err := t.conn.Exec(ctx, sqlWake, ids[first:min(first+namesPage, len(ids))]); err != nil {
			return fmt.Errorf("making messages ready: %w", err)
		}
	}
	return nil
}

// storeQuery stores a query of a stream with its state.
func (t *target) storeQuery(ctx context.Context, q *queryRow, state []stateRow) error {
	n := len(state)
	uids, keys, values, at := make([][16]byte, n), make([]string, n), make([]string, n), make([]time.Time, n)
	for i, s := range state {
		uids[i], keys[i], values[i], at[i] = s.Partition, s.Key, s.Value, s.UpdatedAt
	}
	err := pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		var id int64
		if err := tx.QueryRow(ctx, sqlStream, [16]byte(q.ID), q.Source, q.Name, zeronull.Text(q.Sink), q.Hash, q.CreatedAt).Scan(&id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlState, id, uids, keys, values, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing query %q: %w", q.Name, err)
	}
	return nil
}

// messages returns the next page of stored messages of a partition after a seq. It decrypts their
// payloads.
func (t *target) messages(ctx context.Context, q *queueRow, p *partitionRow, l *lane, after int64) ([]messageRow, error) {
	rows, _ := t.conn.Query(ctx, sqlMessages, l.id, after, messagePage) // CollectRows returns its error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (m messageRow, err error) {
		var encrypted bool
		err = row.Scan(nil, uid(&m.ID), &m.TransactionID, uid(&m.TraceID), &m.Payload, &m.CreatedAt, &encrypted, (*zeronull.Text)(&m.ProducerSub))
		if err == nil && encrypted {
			var opened []byte
			opened, err = t.sealer.Open([]byte(m.Payload), seal.Message{Queue: q.Name, Partition: p.Name, ID: m.ID})
			m.Payload = string(opened)
		}
		return m, err
	})
}
