package explain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is an Explainer on a new database, and the store that fills the database. The queue is q, the partition
// is p and the group is g.
type fixture struct {
	*explain.Explainer
	t     *testing.T
	pool  *postgres.Pool
	store *store.Store
	// last is the newest delivery.
	last queue.Delivery
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pool := enginetest.Pool(t, pgtest.Database(t))
	defaults := queue.DefaultDefaults()
	defaults.RetryLimit = 1
	s := enginetest.Store(t, pool, func(c *store.Config) { c.Defaults = defaults })
	return &fixture{Explainer: explain.New(pool, 0), t: t, pool: pool, store: s}
}

func (f *fixture) exec(statement string, args ...any) {
	f.t.Helper()
	enginetest.Exec(f.t, f.pool, statement, args...)
}

func (f *fixture) push(ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		_, err := f.store.Push(f.t.Context(), []queue.PushItem{{Queue: "q", Partition: "p", TransactionID: id, Payload: []byte(`1`)}})
		require.NoError(f.t, err)
	}
}

func (f *fixture) pop(n int) {
	f.t.Helper()
	var err error
	f.last, err = f.store.Pop(f.t.Context(), &queue.PopRequest{Queue: "q", Group: "g", Batch: n, Partitions: 1, Subscription: queue.Subscription{Mode: queue.SubscribeAll}})
	require.NoError(f.t, err)
}

// ack acknowledges the newest delivery.
func (f *fixture) ack(status queue.AckStatus) {
	f.t.Helper()
	for _, m := range f.last.Messages {
		results, err := f.store.Ack(f.t.Context(), []queue.AckItem{{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: "g", LeaseID: f.last.LeaseID.String(), Status: status,
		}})
		require.NoError(f.t, err)
		require.True(f.t, results[0].Success, results[0].Error)
	}
}

// consume pops n messages and acknowledges them.
func (f *fixture) consume(n int, status queue.AckStatus) { f.pop(n); f.ack(status) }

// option changes an option or flag of the queue.
func (f *fixture) option(change string) { f.exec(`UPDATE belfry.queue SET ` + change) }

func (f *fixture) why(transactionID string, in explain.Instance) explain.Answer {
	f.t.Helper()
	a, err := f.Explain(f.t.Context(), explain.Question{Queue: "q", Partition: "p", Group: "g", TransactionID: transactionID}, in)
	require.NoError(f.t, err)
	return a
}

// cases covers the codes. Before each case, the group exists and the messages m1 and m2 are pushed.
var cases = map[string]struct {
	happens func(f *fixture)
	asks    string // the transaction id of the question, or empty
	in      explain.Instance
	code    explain.Code
	next    string
	// changesIn is how long until NextChangeAt. 0 means that NextChangeAt is zero.
	changesIn time.Duration
	says      string
}{
	"ready":                            {code: explain.Deliverable, next: "m1", in: waiting(1)},
	"ready, without a waiting request": {code: explain.NoWaiter, next: "m1", says: "No request waits"},
	"the first message":                {code: explain.Deliverable, asks: "m1", next: "m1", in: waiting(1)},
	"behind the first message":         {code: explain.Behind, asks: "m2", next: "m1", in: waiting(1), says: `"m1", which comes first`},
	"leased":                           {code: explain.Leased, happens: func(f *fixture) { f.pop(1) }, next: "m1", changesIn: 300 * time.Second},
	"behind a lease":                   {code: explain.Leased, happens: func(f *fixture) { f.pop(1) }, asks: "m2", next: "m1", changesIn: 300 * time.Second, says: "first messages"},
	"covered by a lease":               {code: explain.Leased, happens: func(f *fixture) { f.pop(1) }, asks: "m1", changesIn: 300 * time.Second, says: "is delivered"},
	"the lease has expired":            {code: explain.Deliverable, happens: func(f *fixture) { f.pop(1); f.expire() }, next: "m1", in: waiting(1)},
	"resting":                          {code: explain.Resting, happens: func(f *fixture) { f.option("retry_delay = 60000"); f.consume(1, queue.AckFailed) }, next: "m1", changesIn: time.Minute, says: "failed 1 times"},
	"behind a resting message":         {code: explain.Resting, happens: func(f *fixture) { f.option("retry_delay = 60000"); f.consume(1, queue.AckFailed) }, asks: "m2", next: "m1", changesIn: time.Minute},
	"delayed":                          {code: explain.Delayed, happens: func(f *fixture) { f.option("delayed_processing = 60"); f.recompute() }, next: "m1", changesIn: time.Minute},
	"window open":                      {code: explain.WindowOpen, happens: func(f *fixture) { f.option("window_buffer = 60"); f.recompute() }, next: "m1", changesIn: time.Minute},
	"starts later": {code: explain.StartsLater, happens: func(f *fixture) {
		f.exec(`UPDATE belfry.cursor SET ready_at = NULL, start_at = now() + interval '60 s'`)
	}, changesIn: time.Minute},
	"queue paused":     {code: explain.QueuePaused, happens: func(f *fixture) { f.exec(`SELECT belfry.pause('q')`) }},
	"partition paused": {code: explain.PartitionPaused, happens: func(f *fixture) { f.exec(`SELECT belfry.pause('q', 'p')`) }},
	"group paused":     {code: explain.GroupPaused, happens: func(f *fixture) { f.exec(`SELECT belfry.pause('q', consumer_group => 'g')`) }},
	"pop maintenance":  {code: explain.PopMaintenance, in: explain.Instance{PopMaintenance: true}},
	"empty":            {code: explain.Empty, happens: func(f *fixture) { f.consume(2, queue.AckCompleted) }},
	"no queue":         {code: explain.NoQueue, happens: func(f *fixture) { f.option("name = 'other'") }},
	"no partition":     {code: explain.NoPartition, happens: func(f *fixture) { f.exec(`UPDATE belfry.partition SET name = 'other'`) }},
	"no group":         {code: explain.NoGroup, happens: func(f *fixture) { f.exec(`UPDATE belfry.consumer_group SET name = 'other'`) }},
	"no cursor":        {code: explain.NoCursor, happens: func(f *fixture) { f.exec(`DELETE FROM belfry.cursor`) }},
	"not marked ready": {code: explain.NotReady, happens: func(f *fixture) { f.exec(`UPDATE belfry.cursor SET ready_at = NULL`) }, next: "m1"},
	"delivered too often": {code: explain.Undeliverable, happens: func(f *fixture) {
		f.consume(1, queue.AckCompleted)
		f.option("max_deliveries = 1")
		f.pop(1)
		f.expire()
	}, next: "m2", says: "delivered 1 times"},
	"delivered too often, and a later message": {code: explain.Deliverable, happens: func(f *fixture) { f.option("max_deliveries = 1"); f.pop(1); f.expire() }, next: "m2", in: waiting(1)},
	"acknowledged": {code: explain.Acknowledged, happens: func(f *fixture) { f.consume(1, queue.AckCompleted) }, asks: "m1", next: ""},
	"before the start of the group": {code: explain.BeforeStart, happens: func(f *fixture) {
		f.consume(1, queue.AckCompleted)
		f.exec(`UPDATE belfry.consumer_group SET mode = 'new', start_at = now()`)
	}, asks: "m1"},
	"dead letter": {code: explain.DeadLettered, happens: func(f *fixture) { f.consume(1, queue.AckDead) }, asks: "m1", says: "Redrive"},
	"redriven":    {code: explain.Deliverable, happens: func(f *fixture) { f.consume(1, queue.AckDead); f.redrive() }, asks: "m1", next: "m1", in: waiting(1), says: "redriven"},
	"redriven and resting": {code: explain.Resting, happens: func(f *fixture) {
		f.consume(1, queue.AckDead)
		f.redrive()
		f.consume(9, queue.AckCompleted)
		f.consume(9, queue.AckCompleted)
		f.push("m3")
		f.consume(1, queue.AckDead)
		f.redrive()
		f.exec(`UPDATE belfry.redrive SET retry_at = now() + interval '60 s', failures = 4`)
	}, asks: "m3", next: "m3", changesIn: time.Minute, says: "failed 4 times"},
	"expired":                       {code: explain.Expired, happens: func(f *fixture) { f.option("expire_after_seconds = 60"); f.age("m1") }, asks: "m1", says: "60 s after"},
	"the first message has expired": {code: explain.Deliverable, happens: func(f *fixture) { f.option("expire_after_seconds = 60"); f.age("m1") }, next: "m2", in: waiting(1)},
	"all messages have expired":     {code: explain.Expired, happens: func(f *fixture) { f.option("expire_after_seconds = 60"); f.age("m1"); f.age("m2") }},
	"pushed in maintenance":         {code: explain.NotStored, asks: "m9", in: explain.Instance{PushMaintenance: true}, says: "on the disk of an instance"},
	"never pushed":                  {code: explain.NotStored, asks: "m9", says: "no sweep of the queue is on"},
	"removed": {code: explain.NotStored, happens: func(f *fixture) {
		f.option("retention_enabled = true, retention_seconds = 1, max_wait_time_seconds = 2")
		f.exec(`DELETE FROM belfry.message WHERE transaction_id = 'm1'`)
	}, asks: "m1", says: "(retention, evicted)"},
}

func waiting(n int) explain.Instance {
	return explain.Instance{Waiting: func(_, _, _ string) int { return n }}
}

// expire ends the newest lease.
func (f *fixture) expire() {
	f.exec(`UPDATE belfry.cursor SET lease_until = now() - interval '1 s', ready_at = now() - interval '1 s'`)
}

// age makes a message two minutes old.
func (f *fixture) age(id string) {
	f.exec(`UPDATE belfry.message SET created_at = now() - interval '120 s' WHERE transaction_id = $1`, id)
}

// recompute sets ready_at of the cursor as a change of delayed_processing or window_buffer to 60 s does.
func (f *fixture) recompute() { f.exec(`UPDATE belfry.cursor SET ready_at = now() + interval '60 s'`) }

func (f *fixture) redrive() {
	f.exec(`SELECT belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter))`)
}

func TestEachCaseHasItsCode(t *testing.T) {
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.push("m0")
			f.consume(1, queue.AckCompleted) // registers the group
			f.push("m1", "m2")
			if c.happens != nil {
				c.happens(f)
			}
			a := f.why(c.asks, c.in)
			require.Equal(t, c.code, a.Code, a.Sentence)
			require.Equal(t, c.next, a.Next, a.Sentence)
			require.Contains(t, a.Sentence, c.says)
			require.True(t, strings.HasSuffix(a.Sentence, "."), a.Sentence)
			if c.changesIn == 0 {
				require.Zero(t, a.NextChangeAt)
			} else {
				require.InDelta(t, c.changesIn.Seconds(), a.NextChangeAt.Sub(a.At).Seconds(), 15)
			}
		})
	}
}

// A question without a partition finds the message in any partition of the queue. The answer is NotStored only if the
// search covered all partitions.
func TestASearchSaysHowManyPartitionsItCovered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.push("m0")
	f.consume(1, queue.AckCompleted)
	f.push("m1")
	search := func(transactionID string) explain.Answer {
		a, err := f.Explain(t.Context(), explain.Question{Queue: "q", Group: "g", TransactionID: transactionID}, waiting(1))
		require.NoError(t, err)
		return a
	}
	found := search("m1")
	require.Equal(t, explain.Deliverable, found.Code, found.Sentence)
	require.Equal(t, "p", found.Partition)
	require.Contains(t, found.Sentence, `in the partition "p"`)
	none := search("m9")
	require.Equal(t, explain.NotStored, none.Code, none.Sentence)
	require.Contains(t, none.Sentence, "all 1 were searched")
	require.Empty(t, none.Partition)

	_, err := f.store.Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: "o", TransactionID: "m1", Payload: []byte(`1`)}})
	require.NoError(t, err)
	require.Contains(t, search("m1").Sentence, `["o" "p"]`)

	f.exec(`INSERT INTO belfry.partition (queue_id, name) SELECT q.id, 'a' || i FROM belfry.queue q, generate_series(1, 10000) i`)
	beyond := search("m1")
	require.Equal(t, explain.NotSearched, beyond.Code, beyond.Sentence)
	require.Contains(t, beyond.Sentence, "The first 10000 partitions")
}

// With 100,000 partitions, a question reads at most 25 buffers more than with 10.
func TestTheCostDoesNotGrowWithThePartitions(t *testing.T) {
	t.Parallel()
	buffers := func(partitions int) int {
		f := newFixture(t)
		f.push("m0")
		f.consume(1, queue.AckCompleted)
		f.exec(`INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, 'p' || i, 1 FROM belfry.queue q, generate_series(1, $1::int) i`, partitions)
		f.exec(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at) SELECT p.id, g.id, now() FROM belfry.partition p, belfry.consumer_group g WHERE p.name <> 'p'`)
		f.push("m1", "m2")
		conn, err := f.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		return max(touched(t, conn.Conn()), touched(t, conn.Conn()))
	}
	small := buffers(10)
	require.Less(t, small, 100)
	require.LessOrEqual(t, buffers(100_000), small+25, "a question may read 25 buffers more, because the indexes are deeper")
}

func touched(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	return read(t, conn, "insight/explain/facts", "q", "p", "g", "m2", 0)
}

// buffers returns how many buffers a statement reads.
func (f *fixture) buffers(query string, args ...any) int {
	f.t.Helper()
	conn, err := f.pool.Acquire(f.t.Context())
	require.NoError(f.t, err)
	defer conn.Release()
	return read(f.t, conn.Conn(), query, args...)
}

func read(t *testing.T, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var raw []byte
	require.NoError(t, conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql.Query(query), args...).Scan(&raw))
	var out []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		} `json:"Plan"`
	}
	require.NoError(t, json.Unmarshal(raw, &out))
	return out[0].Plan.Hit + out[0].Plan.Read
}
