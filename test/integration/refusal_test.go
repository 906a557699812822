package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	pushPath      = "/api/v1/push"
	ackPath       = "/api/v1/ack"
	batchPath     = "/api/v1/ack/batch"
	configurePath = "/api/v1/configure"
)

// each255 is a name with the maximum length of 255 bytes. 127 of its characters take two bytes each.
var each255 = strings.Repeat("é", 127) + "x"

func TestNamesOfFullLength(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	require.Len(t, each255, 255)
	transaction := strings.Repeat("é", 255)
	c.push(item{Queue: each255, Partition: each255, TransactionID: transaction}).ok(http.StatusCreated)
	got := c.popPartition(each255, each255, "consumerGroup="+each255).ok(http.StatusOK)
	require.Equal(t, []string{transaction}, got.ids())
	require.Equal(t, each255, got.ConsumerGroup)
	require.True(t, c.ackBatch(each255, got.ack("completed")...).ok(http.StatusOK)[0].Success)
	require.Equal(t, each255, c.configure(each255, nil).ok(http.StatusOK).Queue)
	require.True(t, c.deleteQueue(each255).ok(http.StatusOK).Existed)
}

// HTTP clients remove the names . and .. from a path before they send a request, even in percent-encoded form. Messages in
// such a queue, partition or group could not be popped. So neither a route nor a SQL function may create one.
func TestNamesThatClientsCannotSendAreRefused(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	conn := producer(t, c.dsn)
	execute(t, conn, `CREATE TABLE doc (id text PRIMARY KEY); SELECT belfry.attach('doc', 'docs', key => '{id}')`)
	c.pushIDs("q", "p", "1")
	for _, name := range []string{".", ".."} {
		text := fmt.Sprintf("%q, which clients remove from the path of a request: choose another name", name)
		for path, bodies := range map[string][]string{
			"/api/v1/push":        {`{"items":[{"queue":"q"},{"queue":"%s"}]}`, `{"items":[{"queue":"q","partition":"%s"}]}`},
			"/api/v1/transaction": {`{"operations":[{"type":"push","items":[{"queue":"%s"}]}]}`, `{"operations":[{"type":"push","queue":"q","partition":"%s"}]}`},
			"/streams/v1/cycle":   {`{"query_id":"a","partition_id":"b","push_items":[{"queue":"%s"}]}`},
			"/streams/v1/queries": {`{"name":"n","source_queue":"%s","config_hash":"1"}`},
			configurePath:         {`{"queue":"%s"}`},
		} {
			for _, body := range bodies {
				got := ask[any](c.loose(), post(path, fmt.Sprintf(body, name)))
				require.Equal(t, http.StatusBadRequest, got.Status, body)
				require.Contains(t, got.failure, text)
			}
		}
		require.Contains(t, ask[any](c, get("/api/v1/pop/queue/q?consumerGroup="+name)).failure, text)

		for _, statement := range []string{
			`SELECT belfry.push('%s', '1')`, `SELECT belfry.push('q', '1', partition => '%s')`, `SELECT belfry.push_many('%s', ARRAY['1']::json[])`,
			`SELECT belfry.push_many('q', ARRAY['1']::json[], partitions => ARRAY['%s'])`, `SELECT belfry.subscribe('q', '%s')`,
			`SELECT belfry.pop('q', '%s')`, `SELECT belfry.attach('doc', '%s')`,
		} {
			require.Equal(t, "22023", refused(t, conn, fmt.Sprintf(statement, name)), statement)
		}
		execute(t, conn, `INSERT INTO belfry.inbox (queue, partition, payload) VALUES ($1, 'p', '1'), ('q', $1, '2')`, name)
		execute(t, conn, `INSERT INTO doc VALUES ($1)`, name)
	}
	until(t, "the sequencer has moved all rows", func() (moved bool) {
		c.scan(t, `SELECT NOT EXISTS (SELECT FROM belfry.inbox)`, nil, &moved)
		return moved
	})
	var rejected, unreachable, attached int
	c.scan(t, `SELECT count(*) FROM belfry.inbox_rejected WHERE reason LIKE '%which clients remove from the path%'`, nil, &rejected)
	c.scan(t, `SELECT count(*) FROM (SELECT name FROM belfry.queue UNION SELECT name FROM belfry.partition UNION SELECT name FROM belfry.consumer_group) AS all_names
		WHERE name IN ('.', '..')`, nil, &unreachable)
	c.scan(t, `SELECT count(*) FROM belfry.partition WHERE name LIKE 'md5:%'`, nil, &attached)
	require.Equal(t, []int{4, 0, 2}, []int{rejected, unreachable, attached})
}
