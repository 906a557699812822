package queenimport

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// source reads a Queen MQ database.
type source struct {
	tx pgx.Tx
	// all selects every message, also messages that every group has consumed.
	all bool
}

// queueRow is a queue of the source.
type queueRow struct {
	ID                    queue.ID
	Name, Namespace, Task string
	Options               queue.Options
	CreatedAt             time.Time
}

// partitionRow is a partition of the source.
type partitionRow struct {
	ID        queue.ID
	Name      string
	CreatedAt time.Time
}

// messageRow is a message of the source.
type messageRow struct {
	ID            queue.ID
	TransactionID string
	TraceID       queue.ID
	Payload       string
	CreatedAt     time.Time
	Encrypted     bool
	ProducerSub   string
}

// placeRow is the position of a group in a partition. If At is zero, the group has consumed
// nothing.
type placeRow struct {
	Partition  queue.ID
	Group      string
	At         time.Time
	ID         queue.ID
	Consumed   int64
	ConsumedAt time.Time
	Failures   int64
}

// subscriptionRow says where a group without a position starts. If From is zero, it starts at the
// first message.
type subscriptionRow struct {
	Group, Mode string
	From        time.Time
}

// deadRow is a dead letter of the source.
type deadRow struct {
	Partition            queue.ID
	TransactionID, Group string
	Error                string
	Failures             int64
	FailedAt             time.Time
}

// queryRow is a query of a stream. stateRow is one key of its state.
type queryRow struct {
	ID                       queue.ID
	Name, Source, Sink, Hash string
	CreatedAt                time.Time
}

type stateRow struct {
	Partition queue.ID
	Key       string
	Value     string
	UpdatedAt time.Time
}

// rows reads the rows of a statement. what describes the rows in errors.
func rows[T any](ctx context.Context, what string, result pgx.Rows, read pgx.RowToFunc[T]) ([]T, error) {
	list, err := pgx.CollectRows(result, read) // also returns the error of Query
	if err != nil {
		return nil, fmt.Errorf("reading %s of the source: %w", what, err)
	}
	return list, ctx.Err()
}

// query runs a statement. The rows hold its error.
func (s *source) query(ctx context.Context, statement string, args ...any) pgx.Rows {
	found, _ := s.tx.Query(ctx, statement, args...)
	return found
}

// uid scans a uuid into id. It scans NULL as the zero id.
func uid(id *queue.ID) *zeronull.UUID { return (*zeronull.UUID)(id) }

func (s *source) queues(ctx context.Context) ([]queueRow, error) {
	return rows(ctx, "the queues", s.query(ctx, `
SELECT q.id, q.name, coalesce(q.namespace, ''), coalesce(q.task, ''), coalesce(q.lease_time, 300), coalesce(q.retry_limit, 3),
       coalesce(q.delayed_processing, 0), coalesce(q.window_buffer, 0), coalesce(q.encryption_enabled, false), coalesce(q.retention_enabled, false),
       coalesce(q.retention_seconds, 0), coalesce(q.completed_retention_seconds, 0), coalesce(q.max_wait_time_seconds, 0),
       coalesce(q.max_queue_size, 0), coalesce(q.priority, 0), coalesce(q.retry_delay, 1000), coalesce(q.ttl, 3600),
       coalesce(q.dead_letter_queue, false), coalesce(q.dlq_after_max_retries, false), q.created_at
  FROM queen.queues q
 ORDER BY q.name COLLATE "C"`), func(row pgx.CollectableRow) (q queueRow, err error) {
		o := &q.Options
		err = row.Scan(uid(&q.ID), &q.Name, &q.Namespace, &q.Task, &o.LeaseTime, &o.RetryLimit, &o.DelayedProcessing, &o.WindowBuffer,
			&o.EncryptionEnabled, &o.RetentionEnabled, &o.RetentionSeconds, &o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds,
			&o.MaxSize, &o.Priority, &o.RetryDelay, &o.TTL, &o.DeadLetterQueue, &o.DLQAfterMaxRetries, &q.CreatedAt)
		return q, err
	})
}

func (s *source) partitions(ctx context.Context, queueID queue.ID) ([]partitionRow, error) {
	return rows(ctx, "the partitions", s.query(ctx, `
SELECT p.id, p.name, p.created_at FROM queen.partitions p WHERE p.queue_id = $1 ORDER BY p.name COLLATE "C"`, [16]byte(queueID)), func(row pgx.CollectableRow) (p partitionRow, err error) {
		err = row.Scan(uid(&p.ID), &p.Name, &p.CreatedAt)
		return p, err
	})
}

// wanted is the condition for messages to copy. $1 is the partition. $2 selects all messages. A group
// without a row in partition_consumers has its start as position. If partition_consumers has no row for the
// partition, all messages are copied.
const wanted = `
       ($2 OR (m.created_at, m.id) > (
            SELECT place.at, place.id
              FROM (SELECT coalesce(c.last_consumed_created_at, '-infinity') AS at,
                           coalesce(c.last_consumed_id, '00000000-0000-0000-0000-000000000000') AS id
                      FROM queen.partition_consumers c WHERE c.partition_id = $1
                    UNION ALL
                    SELECT coalesce(d.subscription_timestamp, '-infinity'), 'ffffffff-ffff-ffff-ffff-ffffffffffff'
                      FROM queen.consumer_groups_metadata d
                      JOIN queen.partitions p ON p.id = $1
                      JOIN queen.queues q ON q.id = p.queue_id
                     WHERE ` + subscribes + `
                       AND NOT EXISTS (SELECT FROM queen.partition_consumers c WHERE c.partition_id = $1 AND c.consumer_group = d.consumer_group)
                    UNION ALL
                    SELECT '-infinity', '00000000-0000-0000-0000-000000000000'
                     WHERE NOT EXISTS (SELECT FROM queen.partition_consumers c WHERE c.partition_id = $1)) AS place
             ORDER BY place.at, place.id
             LIMIT 1)
        OR EXISTS (SELECT FROM queen.dead_letter_queue l WHERE l.partition_id = $1 AND l.message_id = m.id))`

// subscribes is the condition that a row d of consumer_groups_metadata applies to queue q and
// partition p.
const subscribes = `coalesce(d.queue_name, '') IN ('', q.name) AND coalesce(d.partition_name, '') IN ('', p.name)
                       AND coalesce(d.namespace, '') IN ('', q.namespace) AND coalesce(d.task, '') IN ('', q.task)`

// messages returns the next messages of a partition to copy, after the message with the given creation time
// and id.
func (s *source) messages(ctx context.Context, partition queue.ID, createdAt time.Time, id queue.ID, limit int) ([]messageRow, error) {
	return rows(ctx, "the messages", s.query(ctx, `
SELECT m.id, m.transaction_id, m.trace_id, m.payload::text, m.created_at, coalesce(m.is_encrypted, false), m.producer_sub
  FROM queen.messages m
 WHERE m.partition_id = $1 AND (m.created_at, m.id) > (coalesce($3::timestamptz, '-infinity'), $4::uuid) AND `+wanted+`
 ORDER BY m.created_at, m.id
 LIMIT $5`, [16]byte(partition), s.all, zeronull.Timestamptz(createdAt), [16]byte(id), limit), func(row pgx.CollectableRow) (m messageRow, err error) {
		err = row.Scan(uid(&m.ID), &m.TransactionID, uid(&m.TraceID), (*zeronull.Text)(&m.Payload), &m.CreatedAt, &m.Encrypted,
			(*zeronull.Text)(&m.ProducerSub))
		if m.Payload == "" {
			m.Payload = "null"
		}
		return m, err
	})
}

// counts returns three numbers of a partition: the messages to copy, the encrypted messages among them,
// and the dead letters.
func (s *source) counts(ctx context.Context, partition queue.ID) (messages, encrypted, dead int64, err error) {
	err = s.tx.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE m.is_encrypted), (SELECT count(*) FROM queen.dead_letter_queue l WHERE l.partition_id = $1)
  FROM queen.messages m
 WHERE m.partition_id = $1 AND `+wanted, [16]byte(partition), s.all).Scan(&messages, &encrypted, &dead)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("counting the messages of the source: %w", err)
	}
	return messages, encrypted, dead, nil
}

func (s *source) places(ctx context.Context, queueID queue.ID) ([]placeRow, error) {
	return rows(ctx, "the places of groups", s.query(ctx, `
SELECT c.partition_id, c.consumer_group, c.last_consumed_created_at, c.last_consumed_id, coalesce(c.total_messages_consumed, 0),
       coalesce(c.batch_retry_count, 0)
  FROM queen.partition_consumers c
  JOIN queen.partitions p ON p.id = c.partition_id
 WHERE p.queue_id = $1
 ORDER BY c.consumer_group COLLATE "C", c.partition_id`, [16]byte(queueID)), func(row pgx.CollectableRow) (p placeRow, err error) {
		err = row.Scan(uid(&p.Partition), &p.Group, (*zeronull.Timestamptz)(&p.At), uid(&p.ID), &p.Consumed, &p.Failures)
		return p, err
	})
}

func (s *source) subscriptions(ctx context.Context, queueID queue.ID) ([]subscriptionRow, error) {
	return rows(ctx, "the subscriptions of groups", s.query(ctx, `
SELECT DISTINCT ON (d.consumer_group) d.consumer_group, coalesce(d.subscription_mode, 'all'), d.subscription_timestamp
  FROM queen.consumer_groups_metadata d
  JOIN queen.queues q ON q.id = $1
  LEFT JOIN queen.partitions p ON p.queue_id = q.id
 WHERE `+subscribes+`
 ORDER BY d.consumer_group, d.subscription_timestamp`, [16]byte(queueID)), func(row pgx.CollectableRow) (r subscriptionRow, err error) {
		err = row.Scan(&r.Group, &r.Mode, (*zeronull.Timestamptz)(&r.From))
		return r, err
	})
}

func (s *source) deadLetters(ctx context.Context, queueID queue.ID) ([]deadRow, error) {
	return rows(ctx, "the dead letters", s.query(ctx, `
SELECT l.partition_id, m.transaction_id, l.consumer_group, l.error_message, coalesce(l.retry_count, 0), coalesce(l.failed_at, now())
  FROM queen.dead_letter_queue l
  JOIN queen.partitions p ON p.id = l.partition_id
  JOIN queen.messages m ON m.id = l.message_id AND m.partition_id = l.partition_id
 WHERE p.queue_id = $1
 ORDER BY l.failed_at, m.id`, [16]byte(queueID)), func(row pgx.CollectableRow) (d deadRow, err error) {
		err = row.Scan(uid(&d.Partition), &d.TransactionID, (*zeronull.Text)(&d.Group), (*zeronull.Text)(&d.Error), &d.Failures, &d.FailedAt)
		if d.Group == "" {
			d.Group = queue.DefaultGroup
		}
		return d, err
	})
}

// queries returns the queries of streams. It returns none if the source has no streams.
func (s *source) queries(ctx context.Context) ([]queryRow, error) {
	var exists bool
	if err := s.tx.QueryRow(ctx, `SELECT to_regclass('queen_streams.queries') IS NOT NULL`).Scan(&exists); err != nil || !exists {
		return nil, err
	}
	return rows(ctx, "the queries", s.query(ctx, `
SELECT q.id, q.name, q.source_queue, q.sink_queue, q.config_hash, q.created_at FROM queen_streams.queries q ORDER BY q.name`), func(row pgx.CollectableRow) (q queryRow, err error) {
		err = row.Scan(uid(&q.ID), &q.Name, &q.Source, (*zeronull.Text)(&q.Sink), &q.Hash, &q.CreatedAt)
		return q, err
	})
}

func (s *source) state(ctx context.Context, queryID queue.ID) ([]stateRow, error) {
	return rows(ctx, "the state of queries", s.query(ctx, `
SELECT s.partition_id, s.key, s.value::text, s.updated_at FROM queen_streams.state s WHERE s.query_id = $1 ORDER BY s.partition_id, s.key`, [16]byte(queryID)), func(row pgx.CollectableRow) (r stateRow, err error) {
		err = row.Scan(uid(&r.Partition), &r.Key, &r.Value, &r.UpdatedAt)
		return r, err
	})
}
