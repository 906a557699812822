package catalog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// stored reads the settings of a queue from its table.
func (r *fixture) stored(name string) (catalog.Settings, catalog.Configured) {
	r.t.Helper()
	set := catalog.Settings{Queue: name}
	var made catalog.Configured
	o, more := &set.Options, &set.Extensions
	require.NoError(r.t, r.conn.QueryRow(enginetest.Context(r.t), `
		SELECT q.uid, p.uid, q.namespace, q.task, q.lease_time, q.retry_limit, q.delayed_processing, q.window_buffer,
		       q.encryption_enabled, q.retention_enabled, q.retention_seconds, q.completed_retention_seconds,
		       q.max_wait_time_seconds, q.max_size, q.priority, q.retry_delay, q.ttl, q.dead_letter_queue, q.dlq_after_max_retries,
		       q.retry_backoff, q.retry_delay_max, q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries, q.tenant_delimiter
		  FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id AND p.name = 'Default'
		 WHERE q.name = $1 AND q.deleted_at IS NULL`, name).
		Scan((*[16]byte)(&made.QueueID), (*[16]byte)(&made.PartitionID), &set.Namespace, &set.Task, &o.LeaseTime, &o.RetryLimit,
			&o.DelayedProcessing, &o.WindowBuffer, &o.EncryptionEnabled, &o.RetentionEnabled, &o.RetentionSeconds,
			&o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds, &o.MaxSize, &o.Priority, &o.RetryDelay, &o.TTL,
			&o.DeadLetterQueue, &o.DLQAfterMaxRetries, &more.RetryBackoff, &more.RetryDelayMax, &more.ExpireAfterSeconds, &more.DeadLetterExpired, &more.MaxDeliveries, &more.TenantDelimiter))
	return set, made
}

func TestConfigureCreatesAndThenReplacesEverything(t *testing.T) {
	r := newFixture(t)
	// Each option has a different value, so that a swapped pair fails the test.
	first := catalog.Settings{Queue: "orders.new", Namespace: "n", Task: "t", Options: queue.Options{
		LeaseTime: 11, RetryLimit: 12, DelayedProcessing: 13, WindowBuffer: 14, EncryptionEnabled: true, RetentionEnabled: false,
		RetentionSeconds: 15, CompletedRetentionSeconds: 16, MaxWaitTimeSeconds: 17, MaxSize: 18, Priority: -19,
		RetryDelay: 20, TTL: 21, DeadLetterQueue: true, DLQAfterMaxRetries: false,
	}, Extensions: queue.Extensions{RetryBackoff: 22, RetryDelayMax: 25, ExpireAfterSeconds: 23, DeadLetterExpired: true, MaxDeliveries: 24, TenantDelimiter: "/"}}
	made, err := r.Configure(enginetest.Context(t), first)
	require.NoError(t, err)
	set, ids := r.stored("orders.new")
	require.Equal(t, first, set)
	require.Equal(t, ids, made)

	second := catalog.Settings{Queue: "orders.new", Options: queue.DefaultDefaults().Options()}
	second.Options.RetentionEnabled, second.Options.DLQAfterMaxRetries = true, true
	again, err := r.Configure(enginetest.Context(t), second)
	require.NoError(t, err)
	require.Equal(t, made, again, "both calls return the same queue")
	set, ids = r.stored("orders.new")
	require.Equal(t, second, set, "tags and options that are not sent are cleared")
	require.Equal(t, made, ids)
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.queue"))
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.partition"))
}

func TestConfigureKeepsMessagesAndCursors(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 3, messages: 2, groups: 2, deadLetters: 1})
	h := r.holdings(key)
	before := r.count(h)
	r.configure("orders", func(o *queue.Options) { o.LeaseTime, o.DelayedProcessing, o.WindowBuffer = 7, 60, 60 })
	require.Equal(t, before, r.count(h))
}

func TestAQueueMayHaveTheEmptyName(t *testing.T) {
	r := newFixture(t)
	made := r.configure("")
	_, ids := r.stored("")
	require.Equal(t, ids, made)
}

func TestConcurrentConfigureCreatesOneQueue(t *testing.T) {
	r := newFixture(t)
	type answer struct {
		made catalog.Configured
		err  error
	}
	answers := make(chan answer, 10)
	ctx := enginetest.Context(t)
	for i := range cap(answers) {
		go func() {
			set := settings("orders")
			set.Options.LeaseTime = int64(i + 1)
			made, err := r.Configure(ctx, set)
			answers <- answer{made, err}
		}()
	}
	first := <-answers
	require.NoError(t, first.err)
	for range cap(answers) - 1 {
		next := <-answers
		require.NoError(t, next.err)
		require.Equal(t, first.made, next.made)
	}
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.queue"))
}

func TestConfigureRejectsNamesTheDatabaseRefuses(t *testing.T) {
	r := newFixture(t)
	for _, name := range []string{strings.Repeat("x", 256), "a\x00b", "\xff"} {
		_, err := r.Configure(enginetest.Context(t), catalog.Settings{Queue: name, Options: queue.DefaultDefaults().Options()})
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), "%q: %v", name, err)
		require.ErrorContains(t, err, "configuring queue ")
	}
	require.Zero(t, r.number("SELECT count(*) FROM belfry.queue"))
}

func TestCatalogWithoutADatabaseIsUnavailable(t *testing.T) {
	r := newFixture(t)
	r.pool.Close()
	_, err := r.Configure(enginetest.Context(t), catalog.Settings{Queue: "orders"})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.ErrorContains(t, err, `configuring queue "orders"`)
	_, err = r.Delete(enginetest.Context(t), "orders")
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.ErrorContains(t, err, `deleting queue "orders"`)
}

// Configure completes even if its client disconnects while it waits for a cursor.
func TestConfigureIsFinishedWhenItsClientLeaves(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 1, messages: 1, groups: 1})
	holder := enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, holder, "BEGIN; SELECT FROM belfry.cursor FOR UPDATE")
	ctx, disconnect := context.WithCancel(t.Context())
	done := inBackground(func() (catalog.Configured, error) {
		return catalog.New(r.pool, nil, &events.Bus{}, zap.NewNop()).Configure(ctx, settings("orders", delay(3600)))
	})
	enginetest.Await(t, "Configure waits for the cursor", r.lockWaiters)
	disconnect()
	enginetest.Exec(t, holder, "COMMIT")
	require.NoError(t, <-done)
	require.Positive(t, r.number("SELECT count(*) FROM belfry.cursor WHERE ready_at > clock_timestamp() + $1::interval", 50*time.Minute))
}

func TestVerbsRunForAClientThatDisconnected(t *testing.T) {
	r := newFixture(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Configure(gone, settings("orders"))
	require.NoError(t, err)
	r.stored("orders")
	existed, err := r.Delete(gone, "orders")
	require.NoError(t, err)
	require.True(t, existed)
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.queue WHERE deleted_at IS NOT NULL"))
}

// Configure accepts encryptionEnabled on a server without a key. The answer and the log contain a
// warning.
func TestConfigureWarnsOfEncryptionWithoutAKey(t *testing.T) {
	r := newFixture(t)
	set := settings("orders")
	set.Options.EncryptionEnabled = true
	made, err := r.Configure(enginetest.Context(t), set)
	require.NoError(t, err)
	require.Empty(t, made.Warning, "this server has a key")

	plaintext, err := seal.New(seal.Config{AllowPlaintext: true})
	require.NoError(t, err)
	for want, sealer := range map[string]*seal.Sealer{"refuses pushes": nil, "stores payloads unencrypted": plaintext} {
		core, logged := observer.New(zap.WarnLevel)
		keyless := catalog.New(r.pool, sealer, r.bus, zap.New(core))
		made, err = keyless.Configure(enginetest.Context(t), set)
		require.NoError(t, err)
		require.Contains(t, made.Warning, want)
		require.Len(t, logged.FilterField(zap.String("queue", "orders")).All(), 1)
		stored, _ := r.stored("orders")
		require.True(t, stored.Options.EncryptionEnabled)
		plain := settings("orders")
		made, err = keyless.Configure(enginetest.Context(t), plain)
		require.NoError(t, err)
		require.Empty(t, made.Warning)
	}
}

// Change keeps the other options. Simultaneous calls of Change lose no change.
func TestChangesAtOnceLoseNothing(t *testing.T) {
	r := newFixture(t)
	_, _, err := r.Change(t.Context(), "none", func(*catalog.Settings) { t.Error("called for a queue that does not exist") })
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
	r.configure("q", func(o *queue.Options) { o.RetryLimit = 3; o.Priority = 0 })
	var all sync.WaitGroup
	var errs [20]error
	for i := range errs {
		all.Go(func() {
			_, _, errs[i] = r.Change(t.Context(), "q", func(set *catalog.Settings) { set.Options.Priority++; set.Namespace += "x" })
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	now, _ := r.stored("q")
	require.Equal(t, []any{int64(20), int64(3), 20}, []any{now.Options.Priority, now.Options.RetryLimit, len(now.Namespace)})
}

func TestLateness(t *testing.T) {
	r := newFixture(t)
	late, err := r.Lateness(enginetest.Context(t), 3*time.Hour)
	require.NoError(t, err)
	require.Zero(t, late.Oldest, "nothing is ready")

	strict := r.queueKey(r.configure("strict", func(o *queue.Options) { o.MaxWaitTimeSeconds = 120 }))
	r.fill(strict, size{partitions: 2, messages: 2, groups: 2})
	r.fill(r.queueKey(r.configure("easy")), size{partitions: 2, messages: 2, groups: 2})
	r.exec("UPDATE belfry.message SET created_at = clock_timestamp() - interval '50 s'")
	late, err = r.Lateness(enginetest.Context(t), 3*time.Hour)
	require.NoError(t, err)
	require.InDelta(t, 50, late.Oldest.Seconds(), enginetest.Patience.Seconds())
	require.Zero(t, late.Groups, "nothing is older than its target")

	r.exec("UPDATE belfry.message SET created_at = clock_timestamp() - interval '70 s'")
	late, err = r.Lateness(enginetest.Context(t), 3*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 2, late.Groups, "half of maxWaitTimeSeconds has passed")

	r.exec("UPDATE belfry.message SET created_at = clock_timestamp() - interval '2 h'")
	late, err = r.Lateness(enginetest.Context(t), 3*time.Hour)
	require.NoError(t, err)
	require.Greater(t, late.Oldest, 2*time.Hour-time.Minute)
	require.EqualValues(t, 2, late.Groups, "both groups of the queue with a target")
	late, err = r.Lateness(enginetest.Context(t), time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 4, late.Groups, "the default is passed too")
	late, err = r.Lateness(enginetest.Context(t), 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, late.Groups, "without a default, the other queue is never late")

	r.exec("UPDATE belfry.cursor SET ready_at = clock_timestamp() + interval '1 h'")
	late, err = r.Lateness(enginetest.Context(t), 3*time.Hour)
	require.NoError(t, err)
	require.Zero(t, late.Oldest, "a leased message does not wait")
}

// A restored backup may undo the deletion of a queue while a purge runs. Then the purge deletes no
// row of the restored queue.
func TestPurgeDeletesNothingThatIsNotMarkedAsDeleted(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("q"))
	r.fill(key, size{partitions: 1, messages: 2, groups: 1, deadLetters: 1})
	r.exec(`INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts) SELECT c.partition_id, c.group_id, 1, 0, 0 FROM belfry.cursor c`)
	r.exec(`INSERT INTO belfry.trace (id, partition_id, seq, group_name, event_type, worker, names, data)
		SELECT gen_random_uuid(), p.id, 1, 'g1', 'x', 'w', '{}', '{}' FROM belfry.partition p WHERE p.name = 'p1'`)
	r.exec(`INSERT INTO belfry.attempt (partition_id, seq, group_id, nth, failed_at, result) SELECT c.partition_id, 1, c.group_id, 1, now(), 2 FROM belfry.cursor c`)
	r.exec(`INSERT INTO belfry.resent (partition_id, seq, message_id, queue, partition, transaction_id) SELECT p.id, 1, p.uid, 'q', 'p', 't' FROM belfry.partition p`)
	r.exec(`INSERT INTO belfry.tenant (queue_id, name) SELECT q.id, 'acme' FROM belfry.queue q`)
	ids := []int64{r.number(`SELECT id FROM belfry.partition WHERE name = 'p1'`)}
	group := r.number(`SELECT id FROM belfry.consumer_group`)
	for query, args := range map[string][]any{
		"engine/catalog/messages_purge": {ids, 10}, "engine/catalog/dead_letters_purge": {ids, 10}, "engine/catalog/redrives_purge": {ids, 10}, "engine/catalog/traces_purge": {ids, 10}, "engine/catalog/attempts_purge": {ids, 10},
		"engine/catalog/resent_purge": {ids, 10}, "engine/catalog/group_attempts_purge": {ids, group, 10},
		"engine/catalog/partitions_close": {key, 10, ""}, "engine/catalog/partitions_purge": {ids}, "engine/catalog/groups_purge": {key}, "engine/catalog/tenants_purge": {key, 10}, "engine/catalog/queue_purge": {key},
		"engine/catalog/group_cursors_purge": {ids, group}, "engine/catalog/group_redrives_purge": {ids, group, 10}, "engine/catalog/group_dead_letters_purge": {ids, group, 10},
	} {
		tag, err := r.conn.Exec(enginetest.Context(t), sql.Query(query), args...)
		require.NoError(t, err, query)
		require.Zero(t, tag.RowsAffected(), query)
	}
}

// The epoch changes with every statement, so the ids that the first statement found are not valid
// in the next one.
func TestVerbsChangeNothingInAnotherEpoch(t *testing.T) {
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("q")), size{partitions: 2, messages: 3, groups: 1})
	r.exec(`UPDATE belfry.cursor SET committed = 1`)
	r.exec(`CREATE SEQUENCE belfry.test_epochs; CREATE OR REPLACE FUNCTION belfry.epoch() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT nextval('belfry.test_epochs') $$`)
	name := "q"
	_, err := r.Seek(enginetest.Context(t), "q", "g1", catalog.Position{End: true})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	_, err = r.SeekPartition(enginetest.Context(t), "q", "g1", "p1", catalog.Position{End: true})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	_, err = r.DeleteGroup(enginetest.Context(t), "g1", &name, false)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	require.Equal(t, int64(1), r.number(`SELECT max(committed) FROM belfry.cursor`))
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.consumer_group`))
}
