package catalog_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
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
		       q.retry_backoff, q.retry_delay_max, q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries
		  FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id AND p.name = 'Default'
		 WHERE q.name = $1 AND q.deleted_at IS NULL`, name).
		Scan((*[16]byte)(&made.QueueID), (*[16]byte)(&made.PartitionID), &set.Namespace, &set.Task, &o.LeaseTime, &o.RetryLimit,
			&o.DelayedProcessing, &o.WindowBuffer, &o.EncryptionEnabled, &o.RetentionEnabled, &o.RetentionSeconds,
			&o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds, &o.MaxSize, &o.Priority, &o.RetryDelay, &o.TTL,
			&o.DeadLetterQueue, &o.DLQAfterMaxRetries, &more.RetryBackoff, &more.RetryDelayMax, &more.ExpireAfterSeconds, &more.DeadLetterExpired, &more.MaxDeliveries))
	return set, made
}

func TestConfigureCreatesAndThenReplacesEverything(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	// Each option has a different value, so that a swapped pair fails the test.
	first := catalog.Settings{Queue: "orders.new", Namespace: "n", Task: "t", Options: queue.Options{
		LeaseTime: 11, RetryLimit: 12, DelayedProcessing: 13, WindowBuffer: 14, EncryptionEnabled: true, RetentionEnabled: false,
		RetentionSeconds: 15, CompletedRetentionSeconds: 16, MaxWaitTimeSeconds: 17, MaxSize: 18, Priority: -19,
		RetryDelay: 20, TTL: 21, DeadLetterQueue: true, DLQAfterMaxRetries: false,
	}, Extensions: queue.Extensions{RetryBackoff: 22, RetryDelayMax: 25, ExpireAfterSeconds: 23, DeadLetterExpired: true, MaxDeliveries: 24}}
	made, err := r.Configure(enginetest.Context(t), first)
	require.NoError(t, err)
	set, ids := r.stored("orders.new")
	require.Equal(t, first, set)
	require.Equal(t, ids, made)

	second := catalog.Settings{Queue: "orders.new", Options: queue.DefaultDefaults().Options()}
	second.Options.RetentionEnabled, second.Options.DLQAfterMaxRetries = true, true
	again, err := r.Configure(enginetest.Context(t), second)
	require.NoError(t, err)
	require.Equal(t, made, again, "it is the same queue")
	set, ids = r.stored("orders.new")
	require.Equal(t, second, set, "tags that are not sent are cleared, and so is every option")
	require.Equal(t, made, ids)
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.queue"))
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.partition"))
}

func TestConfigureKeepsMessagesAndCursors(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 3, messages: 2, groups: 2, deadLetters: 1})
	h := r.holdings(key)
	before := r.count(h)
	r.configure("orders", func(o *queue.Options) { o.LeaseTime, o.DelayedProcessing, o.WindowBuffer = 7, 60, 60 })
	require.Equal(t, before, r.count(h))
}

func TestAQueueMayHaveTheEmptyName(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	made := r.configure("")
	_, ids := r.stored("")
	require.Equal(t, ids, made)
}

func TestConcurrentConfigureCreatesOneQueue(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	type answer struct {
		made catalog.Configured
		err  error
	}
	answers := make(chan answer, 10)
	ctx := enginetest.Context(t)
	for i := range cap(answers) {
		go func() {
			set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
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
	t.Parallel()
	r := newFixture(t)
	for _, name := range []string{strings.Repeat("x", 256), "a\x00b", "\xff"} {
		_, err := r.Configure(enginetest.Context(t), catalog.Settings{Queue: name, Options: queue.DefaultDefaults().Options()})
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), "%q: %v", name, err)
		require.ErrorContains(t, err, "configuring queue ")
	}
	require.Zero(t, r.number("SELECT count(*) FROM belfry.queue"))
}

func TestCatalogWithoutADatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 1, messages: 1, groups: 1})
	holder := enginetest.Connect(t, r.dsn)
	_, err := holder.Exec(enginetest.Context(t), "BEGIN; SELECT FROM belfry.cursor FOR UPDATE")
	require.NoError(t, err)
	ctx, disconnect := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
		set.Options.DelayedProcessing = 3600
		_, err := catalog.New(r.pool, nil, &events.Bus{}, zap.NewNop()).Configure(ctx, set)
		done <- err
	}()
	enginetest.Await(t, "Configure waits for the cursor", r.lockWaiters)
	disconnect()
	_, err = holder.Exec(enginetest.Context(t), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Positive(t, r.number("SELECT count(*) FROM belfry.cursor WHERE ready_at > clock_timestamp() + $1::interval", 50*time.Minute))
}

func TestVerbsRunForAClientThatDisconnected(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Configure(gone, catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()})
	require.NoError(t, err)
	r.stored("orders")
	existed, err := r.Delete(gone, "orders")
	require.NoError(t, err)
	require.True(t, existed)
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.queue WHERE deleted_at IS NOT NULL"))
}

// Encryption without a key is configured, and the answer and the log warn.
func TestConfigureWarnsOfEncryptionWithoutAKey(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
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
		plain := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
		made, err = keyless.Configure(enginetest.Context(t), plain)
		require.NoError(t, err)
		require.Empty(t, made.Warning)
	}
}
