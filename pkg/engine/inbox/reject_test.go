package inbox

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func (r *fixture) rejected() []string {
	r.t.Helper()
	return r.texts("SELECT r.transaction_id || ' ' || r.code || ': ' || r.reason FROM belfry.inbox_rejected r ORDER BY r.id")
}

func TestInvalidRowsAreRejected(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s := r.session()
	long := strings.Repeat("ü", 128)
	s.exec("BEGIN")
	s.insert("a", "before")
	s.exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ($1, '1', 'bad queue')`, long)
	s.insert(long, "bad partition")
	s.exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ('q', to_json(repeat('x', 2000)), 'large')`)
	s.exec(`INSERT INTO belfry.inbox (queue, payload, transaction_id, visible_at) VALUES ('q', '1', 'never', 'infinity')`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, visible_at) VALUES ('q', 'a', '1', 'always', '-infinity')`)
	s.insert("a", strings.Repeat("x", 256))
	s.insert("a", "behind")
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"before", "always", "behind"}, r.stored("a"))
	require.Zero(t, r.waiting())
	require.Equal(t, []string{
		"bad queue invalid: the name of the queue is 256 bytes long: at most 255 are allowed",
		"bad partition invalid: the name of the partition is 256 bytes long: at most 255 are allowed",
		"large too_large: the payload has 2002 bytes: at most 1000 are allowed (http.max_body_bytes)",
		"never invalid: visible_at is more than a year away",
		strings.Repeat("x", 256) + " invalid: transaction_id is 256 characters long: at most 255 are allowed",
	}, r.rejected())
	require.Equal(t, int64(5), enginetest.Metric(t, r.reg, "belfry_inbox_rejected_total"))
	counts, err := r.Counts(enginetest.Context(t))
	require.NoError(t, err)
	require.Equal(t, int64(5), counts.Rejected)
}

// The rows that exceed maxSize are rejected. Rows of other queues are not. Rejected rows can be
// retried.
func TestAFullQueueRejects(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.exec(`SELECT belfry.push('q', '0', 'a', 'zero')`)
	r.runStep()
	r.exec("UPDATE belfry.queue SET max_size = 3 WHERE name = 'q'")
	s := r.session()
	s.exec("BEGIN")
	for _, id := range []string{"one", "two", "three", "three"} {
		s.insert("a", id)
	}
	s.exec(`INSERT INTO belfry.inbox (queue, payload) VALUES ('other', '1')`)
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"zero", "one", "two"}, r.stored("a"))
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.queue WHERE name = 'other'"))
	require.Len(t, r.rejected(), 2)
	require.Contains(t, r.rejected()[0], "three queue_full: ")

	r.exec("UPDATE belfry.queue SET max_size = 10 WHERE name = 'q'")
	require.Equal(t, int64(2), r.number("SELECT belfry.inbox_retry()"))
	enginetest.Await(t, "the retried rows are stored", func() bool {
		r.runStep()
		if len(r.rejected()) > 0 {
			r.number("SELECT belfry.inbox_retry()")
		}
		return len(r.stored("a")) == 4
	})
	require.Equal(t, "three", r.stored("a")[3])
}

// A row that the database refuses is found by halving the batch. The other rows keep their order.
func TestARefusedRowIsFoundInABatch(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.exec("ALTER TABLE belfry.message ADD CONSTRAINT no_three CHECK (transaction_id <> 'm3')")
	s := r.session()
	s.exec("BEGIN")
	for _, id := range numbered("m", 8) {
		s.insert("a", id)
	}
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"m0", "m1", "m2", "m4", "m5", "m6", "m7"}, r.stored("a"))
	require.Len(t, r.rejected(), 1)
	require.Contains(t, r.rejected()[0], "m3 invalid: the database refused a value")
}

// An error that no row causes rejects nothing.
func TestAnErrorWithoutACausingRowRejectsNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.exec("ALTER TABLE belfry.message RENAME TO away")
	r.session().insert("a", "one")
	_, err := r.step(enginetest.Context(t))
	require.Error(t, err)
	require.Empty(t, r.rejected())
	r.exec("ALTER TABLE belfry.away RENAME TO message")
	r.runStep()
	require.Equal(t, []string{"one"}, r.stored("a"))
}

func TestQueueOptionsApply(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("ab", 32))})
	require.NoError(t, err)
	r.instance = newInstance(t, r.dsn, sealer)
	r.exec(`INSERT INTO belfry.queue (name, encryption_enabled) VALUES ('q', true)`)
	s := r.session()
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, trace_id, visible_at)
		VALUES ('q', 'a', '"secret"', '00000000-0000-7000-8000-000000000001', now() + interval '1 hour')`)
	s.insert("b", "same")
	s.insert("b", "same")
	r.runStep()
	require.Equal(t, int64(2), r.number(`SELECT count(*) FROM belfry.message m WHERE m.encrypted AND m.payload::text NOT LIKE '%secret%'
		AND m.payload::text NOT LIKE $1`, "%"+base64.StdEncoding.EncodeToString([]byte(`"secret"`))+"%"))
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.message m
		WHERE m.visible_at > now() + interval '59 minutes' AND m.trace_id = '00000000-0000-7000-8000-000000000001'`))
	require.Equal(t, []string{"same"}, r.stored("b"))
	require.Equal(t, int64(1), enginetest.Metric(t, r.reg, "belfry_inbox_duplicates_total"))
}

// A row that cannot be encrypted is rejected, and its neighbours are stored. With a key it can be
// retried.
func TestARowThatCannotBeSealedIsRejected(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.exec(`INSERT INTO belfry.queue (name, encryption_enabled) VALUES ('secret', true)`)
	s := r.session()
	s.exec("BEGIN")
	s.insert("a", "before")
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('secret', 'a', '1', 'sealed'), ('secret', 'b', '1', 'sealed too')`)
	s.insert("a", "behind")
	s.exec("COMMIT")
	r.runStep()
	require.Equal(t, []string{"before", "behind"}, r.stored("a"))
	require.Len(t, r.rejected(), 2)
	require.Contains(t, r.rejected()[0], `sealed invalid: queue "secret" has encryptionEnabled`)
	require.Contains(t, r.rejected()[1], "set encryption.key")
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
		JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'secret'`))

	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("ab", 32))})
	require.NoError(t, err)
	r.resign(enginetest.Context(t))
	r.instance = newInstance(t, r.dsn, sealer)
	require.Equal(t, int64(2), r.number("SELECT belfry.inbox_retry()"))
	r.runStep()
	require.Equal(t, int64(2), r.number(`SELECT count(*) FROM belfry.message m WHERE m.encrypted`))
}
