package integration_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/queenimport"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// num returns the n-th uuid of a kind. moment returns the time of message n. The messages 2k and 2k+1 have the same time.
func num(kind, n int) string { return fmt.Sprintf("%08x-0000-7000-8000-%012x", kind, n) }

func moment(n int) time.Time { return time.Date(2026, 5, 1, 8, 0, n/2, 0, time.UTC) }

// queenEnvelope encrypts a payload in the format of Queen MQ.
func queenEnvelope(t *testing.T, key, payload string) string {
	t.Helper()
	raw, err := hex.DecodeString(key)
	require.NoError(t, err)
	block, err := aes.NewCipher(raw)
	require.NoError(t, err)
	box, err := cipher.NewGCMWithNonceSize(block, 16)
	require.NoError(t, err)
	iv := []byte("0123456789abcdef")
	sealed := box.Seal(nil, iv, []byte(payload), nil)
	cut := len(sealed) - 16
	return encode(map[string]string{
		"encrypted": base64.StdEncoding.EncodeToString(sealed[:cut]), "iv": base64.StdEncoding.EncodeToString(iv),
		"authTag": base64.StdEncoding.EncodeToString(sealed[cut:]),
	})
}

// These are the kinds of ids for num.
const (
	queues = iota + 1
	partitions
	ordersMessages
	otherMessages
	traceIDs
	streamQueries
)

// fillQueen creates a database of Queen MQ and returns its URL. The queue orders has partition A with the messages 1 to 10,
// partition B with 3 messages, and the empty partition C. The queue secret has one encrypted message.
func fillQueen(t *testing.T, key string) string {
	t.Helper()
	dsn := pgtest.DatabaseWithoutSchema(t)
	conn := producer(t, dsn)
	tables, err := os.ReadFile("../../pkg/engine/queenimport/testdata/queen.sql")
	require.NoError(t, err)
	for _, statement := range strings.SplitAfter(string(tables), ";\n") {
		execute(t, conn, statement)
	}
	execute(t, conn, `INSERT INTO queen.queues VALUES
		($1, 'orders', 'shop', 'eu', 5, 60, 2, 500, 3600, true, false, 0, 0, 0, 0, false, false, 0, 0, $3), ($2, 'secret', '', '', 0, 300, 3, 1000, 3600, false, false, 0, 0, 0, 0, false, true, 0, 0, $3)`,
		num(queues, 1), num(queues, 2), moment(0))
	for n, name := range []string{"A", "B", "C", "Default"} {
		execute(t, conn, `INSERT INTO queen.partitions VALUES ($1, $2, $3, $4, $4)`, num(partitions, n), num(queues, 1+n/3), name, moment(0))
	}
	message := func(kind, n, partition int, payload string, encrypted bool) {
		execute(t, conn, `INSERT INTO queen.messages VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, num(kind, n), fmt.Sprint("m", n), num(traceIDs, n), num(partitions, partition),
			payload, moment(n), encrypted, "anna")
	}
	for n := 10; n > 0; n-- { // inserted in reverse, because the order of insertion must not matter
		message(ordersMessages, n, 0, fmt.Sprintf(`{"n": %d, "text": "été"}`, n), false)
	}
	for n := range 3 {
		message(otherMessages, n, 1, "null", false)
	}
	message(otherMessages, 9, 3, queenEnvelope(t, key, `{"card":  4711}`), true)
	place := func(partition int, group string, n int) {
		execute(t, conn, `INSERT INTO queen.partition_consumers VALUES ($1, $2, $3, $4, $5, now() + interval '1 hour', 'w', 1, 0, 0)`, num(partitions, partition), group,
			num(ordersMessages, n), moment(n), n)
	}
	place(0, "billing", 5)
	place(0, "__QUEUE_MODE__", 3)
	execute(t, conn, `INSERT INTO queen.partition_consumers (partition_id, consumer_group, last_consumed_id) VALUES ($1, 'billing', $2)`, num(partitions, 2),
		"00000000-0000-0000-0000-000000000000")
	execute(t, conn, `INSERT INTO queen.consumer_groups_metadata VALUES ('late', 'orders', '', '', '', 'new', $1)`, moment(7))
	for _, n := range []int{1, 8} {
		execute(t, conn, `INSERT INTO queen.dead_letter_queue VALUES ($1, $2, 'billing', 'broken', 2, $3, $4)`, num(ordersMessages, n), num(partitions, 0), moment(n), moment(20))
	}
	execute(t, conn, `INSERT INTO queen_streams.queries VALUES ($1, 'sum', 'orders', 'sums', 'h', $2, $2)`, num(streamQueries, 1), moment(0))
	execute(t, conn, `INSERT INTO queen_streams.state VALUES ($1, $2, 'k', '{"windowEnd": 5}', $3)`, num(streamQueries, 1), num(partitions, 0), moment(0))
	return dsn
}

// After an import from Queen MQ, a team must find its queues, groups, unread messages, dead letters and state. If a run
// stops, the next run must continue it.
func TestQueuesOfQueenMQAreImported(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("ab", 32)
	from, to := fillQueen(t, key), pgtest.Database(t)
	ours, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("5", 64))})
	require.NoError(t, err)
	theirs, err := seal.New(seal.Config{Key: setting.Secret(key)})
	require.NoError(t, err)
	run := func(ctx context.Context, o queenimport.Options) ([]queenimport.Report, error) {
		client, err := queenimport.Open(t.Context(), from, to, ours)
		require.NoError(t, err)
		defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
		return client.Run(ctx, o)
	}
	_, err = run(t.Context(), queenimport.Options{DryRun: true})
	require.ErrorIs(t, err, queenimport.ErrNoKey)
	counted, err := run(t.Context(), queenimport.Options{DryRun: true, Key: theirs})
	require.NoError(t, err)
	require.Equal(t, []queenimport.Report{
		{Queue: "orders", Partitions: 3, Messages: 11, DeadLetters: 2}, {Queue: "secret", Partitions: 1, Messages: 1, Encrypted: 1},
	}, counted, "the import has message 1 of A (a dead letter), 4 to 10 of A, and all of B")
	stopped, stop := context.WithCancel(t.Context())
	_, err = run(stopped, queenimport.Options{Key: theirs, Progress: func(queenimport.Report) { stop() }})
	require.Error(t, err)
	for _, copied := range []int64{1, 0} {
		reports, err := run(t.Context(), queenimport.Options{Key: theirs})
		require.NoError(t, err)
		require.Zero(t, reports[0].Copied, "the stopped run must have copied this queue")
		require.Equal(t, copied, reports[1].Copied)
		require.Equal(t, 3, reports[0].Groups)
	}

	c := startOn(t, to).client(t)
	ids := func(query string) []string { return c.popPartition("orders", "A", query+"&batch=99").body.ids() }
	before := c.popPartition("orders", "A", "consumerGroup=billing&batch=99").ok(http.StatusOK)
	require.Equal(t, []string{"m6", "m7"}, before.ids(), "the batch must end before m8, which is a dead letter")
	c.ackBatch("billing", before.ack("completed")...).ok(http.StatusOK)
	require.Equal(t, []string{"m9", "m10"}, ids("consumerGroup=billing"))
	require.Equal(t, []string{"m4", "m5", "m6", "m7", "m8", "m9", "m10"}, ids(""))
	require.Equal(t, []string{"m8", "m9", "m10"}, ids("consumerGroup=late"), "the group late must start after its timestamp")
	require.Equal(t, []string{"m1", "m4", "m5", "m6", "m7", "m8", "m9", "m10"}, ids("consumerGroup=fresh"))
	require.Equal(t, []string{"m0", "m1", "m2"}, c.popPartition("orders", "B", "batch=9&consumerGroup=billing").body.ids())
	got := c.pop("secret", "").ok(http.StatusOK).Messages[0]
	require.Equal(t, message{
		ID: num(otherMessages, 9), TransactionID: "m9", TraceID: new(num(traceIDs, 9)), Data: json.RawMessage(`{"card":  4711}`), ProducerSub: new("anna"),
		CreatedAt: "2026-05-01T08:00:04.000000Z", PartitionID: num(partitions, 3), Partition: "Default", LeaseID: got.LeaseID, ConsumerGroup: "__QUEUE_MODE__", Attempt: 1,
	}, got)
	dead := c.dlq("queue=orders")
	require.Equal(t, 2, dead.Total)
	require.Equal(t, []string{`k={"windowEnd":5}`}, c.state(num(streamQueries, 1), num(partitions, 0), object{"ripe_at_or_before": 5}))
	var status struct {
		Queue struct {
			ID, Namespace, Task, CreatedAt string
			Config                         struct{ LeaseTime, RetryLimit int }
		}
	}
	require.NoError(t, json.Unmarshal(ask[any](c, get("/api/v1/status/queues/orders")).Raw, &status))
	require.Equal(t, []any{num(queues, 1), "shop", "eu", "2026-05-01T08:00:00.000Z", 60, 2},
		[]any{status.Queue.ID, status.Queue.Namespace, status.Queue.Task, status.Queue.CreatedAt, status.Queue.Config.LeaseTime, status.Queue.Config.RetryLimit})
	require.Equal(t, "queued", c.pushIDs("orders", "A", "m11")[0].Status)
	require.Equal(t, "duplicate", c.pushIDs("orders", "A", "m10")[0].Status)
}

// If a copied message has other content, the import must fail. It must also fail if a target queue already has other
// messages.
func TestAnImportFailsIfTheCopyDiffers(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("ab", 32)
	theirs, err := seal.New(seal.Config{Key: setting.Secret(key)})
	require.NoError(t, err)
	from := fillQueen(t, key)
	run := func(to string, o queenimport.Options) error {
		client, err := queenimport.Open(t.Context(), from, to, nil)
		require.NoError(t, err)
		_, err = client.Run(t.Context(), o)
		require.NoError(t, client.Close(t.Context()))
		return err
	}
	to := pgtest.Database(t)
	require.NoError(t, run(to, queenimport.Options{Key: theirs, All: true}))
	conn := producer(t, to)
	var messages int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM belfry.message`).Scan(&messages))
	require.Equal(t, 14, messages)
	execute(t, conn, `UPDATE belfry.message SET payload = '{"n": 5, "text": "ete"}' WHERE transaction_id = 'm5'`)
	require.ErrorIs(t, run(to, queenimport.Options{Key: theirs, All: true}), queenimport.ErrDiffers)

	own := startOn(t, pgtest.Database(t)).client(t)
	own.pushIDs("orders", "A", "mine")
	require.ErrorContains(t, run(own.dsn, queenimport.Options{Key: theirs}), "messages that do not come from the source")
	_, err = queenimport.Open(t.Context(), to, to, nil)
	require.ErrorContains(t, err, "it is not a database of Queen MQ")
}
