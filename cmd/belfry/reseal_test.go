package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/reseal"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestResealRefusesMistypedLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"reseal": "accepts 1 arg(s)", "reseal a b": "accepts 1 arg(s)", "reseal a --chek": "unknown flag"} {
		code, _, stderr := belfry(t, strings.Fields(line)...)
		require.Equal(t, 2, code, line)
		require.Contains(t, stderr, want, line)
	}
	code, _, stderr := belfry(t, "reseal", "q", "--database-url", "")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "BELFRY_DATABASE_URL")
}

// The exit code is 0 if every message has the current key, and 1 if a message cannot be decrypted.
func TestResealChangesTheKeyOfAQueue(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	oldKey, newKey := "old:"+strings.Repeat("a", 64), "new:"+strings.Repeat("b", 64)
	id := storeSealed(t, dsn, oldKey)
	run := func(ring string, args ...string) (int, string, string) {
		return belfry(t, append([]string{"reseal", "--config", configFile(t, "encryption: {keys: '"+ring+"'}"), "--database-url", dsn}, args...)...)
	}
	code, _, stderr := run("", "q")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "encryption.key is not set")
	code, _, stderr = run(newKey, "quueue")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `there is no such queue: "quueue"`)
	code, stdout, stderr := run(newKey, "q", "--check")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, `partition "p", transaction id "t", message `+id.String()+`, key old: encryption.keys has no key "old"`)
	require.Contains(t, stderr, "queue q has 1 messages that cannot be decrypted or read")
	code, stdout, stderr = run(newKey+","+oldKey, "q")
	require.Zero(t, code, stderr)
	require.Equal(t, "Queue q: 1 messages, 1 resealed.\nKEY  MESSAGES\nnew  1 current\n", stdout)
	code, stdout, stderr = run(newKey, "q", "--check")
	require.Zero(t, code, stderr)
	require.Equal(t, "Queue q: 1 messages checked.\nKEY  MESSAGES\nnew  1 current\n", stdout)
}

// storeSealed stores one message of queue q, encrypted with a key, and returns its id.
func storeSealed(t *testing.T, dsn, key string) queue.ID {
	t.Helper()
	sealer, err := seal.New(seal.Config{Keys: setting.Secret(key)})
	require.NoError(t, err)
	id := queue.NewID()
	payload, err := sealer.Seal([]byte("1"), seal.Message{Queue: "q", Partition: "p", ID: id})
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(t.Context(), `WITH q AS (INSERT INTO belfry.queue (name, lease_time, retry_limit) VALUES ('q', 300, 3) RETURNING id),
		p AS (INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, 'p', 1 FROM q RETURNING id)
		INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, encrypted, payload)
		SELECT p.id, 1, now(), $1, 't', true, $2::text::json FROM p`, [16]byte(id), string(payload))
	require.NoError(t, err)
	return id
}

func TestSummaryOfAReseal(t *testing.T) {
	t.Parallel()
	const want = `Queue q: 29 messages, 17 resealed.
KEY           MESSAGES
new           15 current
old           12
(clear text)  2
1 messages were skipped because a deletion had locked them. If the deletion failed, run the command again.
11 messages cannot be decrypted or read:
  partition "p", transaction id "t", message 00000000-0000-0000-0000-000000000000, key old: broken
  and 10 more
`
	require.Equal(t, want, resealText("q", false, &reseal.Report{Current: "new", Passes: 2, Resealed: 17, Last: reseal.Counts{
		Messages: map[string]int{reseal.ClearText: 2, "old": 12, "new": 15}, Locked: 1, Failed: 11,
		Failures: []reseal.Failure{{Message: reseal.Message{Partition: "p", TransactionID: "t"}, Key: "old", Reason: errors.New("broken")}},
	}}))
}
