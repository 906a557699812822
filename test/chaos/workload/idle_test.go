package workload

import (
	"context"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// A message deleted with its partition is not pushed again and never dead-lettered.
func TestTheIdleQueueGetsNoRepeatedPushes(t *testing.T) {
	t.Parallel()
	stop, end := context.WithTimeout(t.Context(), 3*longestIdle)
	defer end()
	var a requestLog
	clients, recorder := clientsOn(t, a.serve(http.StatusServiceUnavailable, ""))
	clients.client("one").feedIdle(t.Context(), stop, nil)
	pushed := map[string]bool{}
	for i, o := range recorder.Operations() {
		require.Equal(t, idleQueue, o.Queue)
		require.NotContains(t, a.lines[i], "poison")
		for _, item := range o.Items {
			require.False(t, pushed[item.TransactionID], "%s was pushed twice", item.TransactionID)
			pushed[item.TransactionID] = true
		}
	}
	require.NotEmpty(t, pushed)
}

func TestAConsumerByNameAsksForOnePartition(t *testing.T) {
	t.Parallel()
	var a requestLog
	clients, recorder := clientsOn(t, a.serve(http.StatusNoContent, ""))
	one := clients.client("one")
	one.reads, one.only = []string{idleQueue}, "p3"
	one.popRandomly(t.Context(), byNameGroup)
	require.Contains(t, a.lines[0], "/pop/queue/chaos.idle/partition/p3 ")
	require.GreaterOrEqual(t, recorder.Operations()[0].Wait, mostWait)
}

func TestOnlyYoungPartitionsOfTheQueueAreAged(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), `
INSERT INTO belfry.queue (name) VALUES ('chaos.idle'), ('other');
INSERT INTO belfry.partition (queue_id, name, created_at, last_push_at)
SELECT q.id, p.name, now() - p.born, now() - p.pushed
  FROM belfry.queue q, (VALUES ('new', interval '0', NULL::interval), ('old', interval '3 days', interval '2 days'),
                               ('used', interval '3 days', interval '1 hour')) AS p(name, born, pushed)`)
	require.NoError(t, err)
	clients, _ := clientsOn(t, answerWith(http.StatusOK, ""))
	require.NoError(t, clients.client("clock").ageSome(t.Context(), pool, 100))
	rows, err := pool.Query(t.Context(), `
SELECT q.name || '.' || p.name, extract(epoch FROM now() - coalesce(p.last_push_at, p.created_at))::bigint / 3600
  FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id`)
	require.NoError(t, err)
	hours := map[string]int64{}
	for rows.Next() {
		var name string
		var n int64
		require.NoError(t, rows.Scan(&name, &n))
		hours[name] = n
	}
	require.NoError(t, rows.Err())
	require.Equal(t, map[string]int64{
		"chaos.idle.new": 48, "chaos.idle.old": 48, "chaos.idle.used": 49, "other.new": 0, "other.old": 48, "other.used": 1,
	}, hours)
	pool.Close()
	require.ErrorContains(t, clients.client("clock").ageSome(t.Context(), pool, 100), "finding young partitions")
}

// A dead letter that is not poison is redriven and completed.
func TestTheRevivedGroupDeadLettersOneMessage(t *testing.T) {
	t.Parallel()
	clients, recorder := clientsOn(t, answerWith(http.StatusOK, `[{"success":true},{"success":true,"dlq":true},{"success":true}]`))
	d := delivery{popRequest: popRequest{queue: "q", group: revivedGroup}, LeaseID: "lease"}
	for _, id := range []string{"a", "b", "c"} {
		d.Messages = append(d.Messages, message{TransactionID: id, Partition: "p"})
	}
	clients.client("one").deadLetterOne(t.Context(), d)
	said := map[string]int{}
	for _, item := range recorder.Operations()[0].Items {
		said[item.Status]++
	}
	require.Equal(t, map[string]int{"completed": 2, "dlq": 1}, said)
	d.Messages[1].Data.Poison = true
	for i, v := range d.finalVerdicts() {
		require.Equal(t, []string{"completed", "dlq", "completed"}[i], v.status)
	}
}
