package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

const traceOfHeaders = "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"

// pushedHeaders are headers as a client pushes them, and travelled the same headers as they are delivered.
const pushedHeaders, travelled = `{"Tenant":"ac\u006de","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`,
	`{"tenant":"acme","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`

func headersOf(text string) (all map[string]string) {
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		panic(err)
	}
	return all
}

// Headers stay with a message on each of its ways: pushes of all kinds, pops over HTTP and in SQL, lists, dead letters, redrives and
// messages that are sent again. A message without headers has no such member.
func TestHeadersTravelWithTheMessage(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	options(c, "q", "retryDelay", 0)
	push := func(path, body string) { ask[any](c, post(path, fmt.Sprintf(body, pushedHeaders))) }
	push("/api/v1/push", `{"items":[{"queue":"q","partition":"push","transactionId":"1","headers":%s},{"queue":"q","partition":"none","headers":{}}]}`)
	push("/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"q","partition":"transaction","transactionId":"1","headers":%s}]}]}`)
	sql := producer(t, s.dsn)
	execute(t, sql, `SELECT belfry.push('q', '1'::json, 'json', '1', headers => $1::json)`, pushedHeaders)
	execute(t, sql, `SELECT belfry.push('q', '1'::jsonb, 'jsonb', '1', headers => $1::jsonb)`, pushedHeaders)
	execute(t, sql, `SELECT belfry.push('q', '1', 'text', '1', headers => '`+pushedHeaders+`')`)
	execute(t, sql, `SELECT belfry.push_many('q', ARRAY ['1', '2']::json[], '{many,none}', '{1,2}', headers => ARRAY [$1, NULL]::json[])`, pushedHeaders)
	execute(t, sql, `INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, headers) VALUES ('q', 'inbox', '1', '1', $1)`, pushedHeaders)
	popRaw := func(partition, query string) string {
		found, err := s.send(t.Context(), popPartitionCall("q", partition, query+"&wait=true&timeout=20000"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, found.Status, partition)
		return string(found.Raw)
	}
	for _, partition := range []string{"push", "transaction", "json", "jsonb", "text", "many", "inbox"} {
		raw := popRaw(partition, "consumerGroup=g&autoAck=true")
		require.Contains(t, raw, `"headers":`+travelled, partition)
		require.Contains(t, raw, `"traceId":"`+traceOfHeaders+`"`, "the trace id of %s comes from traceparent", partition)
		var sqlHeaders string
		s.scan(t, `SELECT p.headers::text FROM belfry.pop('q', 'sql', partition => $1) p`, []any{partition}, &sqlHeaders)
		require.JSONEq(t, travelled, sqlHeaders)
	}
	require.NotContains(t, popRaw("none", "consumerGroup=g&autoAck=true&batch=10"), "headers")

	query := c.register(object{"name": "copy", "source_queue": "q", "config_hash": "1"}).ok(http.StatusOK).QueryID
	partition := c.popPartition("q", "push", "").ok(http.StatusOK).PartitionID
	done := c.cycle(object{"query_id": query, "partition_id": partition, "push_items": []object{
		{"queue": "q", "partition": "cycle", "payload": 1, "headers": json.RawMessage(pushedHeaders)}}})
	require.True(t, done.Success, done.Error)
	require.Contains(t, popRaw("cycle", "consumerGroup=g"), `"headers":`+travelled, "a push of a stream")

	c.configure("secret", map[string]any{"encryptionEnabled": true}).ok(http.StatusOK)
	push("/api/v1/push", `{"items":[{"queue":"secret","payload":"hidden","headers":%s}]}`)
	var stored string
	s.scan(t, `SELECT m.headers::text || m.payload::text FROM belfry.message m WHERE m.encrypted`, nil, &stored)
	require.Contains(t, stored, travelled, "headers of an encrypted message are stored in clear")
	require.NotContains(t, stored, "hidden")
	event := s.openStream(t, streamOf("secret", "consumerGroup=g")).until("message")
	require.Contains(t, string(event.data), `"headers":`+travelled, "an event of a stream of messages")

	d := c.popPartition("q", "push", "consumerGroup=late").ok(http.StatusOK)
	c.ackBatch("late", d.ack("dlq")...).ok(http.StatusOK)
	dead := ask[api.DeadLetters](c, get("/api/v1/dlq?queue=q")).ok(http.StatusOK).Messages[0]
	require.Equal(t, headersOf(travelled), dead.Headers)
	listed := ask[api.Messages](c, get("/api/v1/messages?queue=q&partition=push")).ok(http.StatusOK).Messages[0]
	require.Equal(t, headersOf(travelled), listed.Headers)
	path := "/api/v1/messages/" + dead.PartitionID + "/1"
	require.Equal(t, headersOf(travelled), ask[api.StoredMessage](c, get(path)).ok(http.StatusOK).Headers)
	for transaction, change := range map[string][2]string{
		"kept": {"", travelled}, "changed": {`,"headers":{"B":"2"}`, `{"b":"2"}`}, "removed": {`,"headers":{}`, ""},
	} {
		ask[any](c, post(path+"/resend", `{"partition":"again","transactionId":"`+transaction+`"`+change[0]+`}`)).ok(http.StatusOK)
		raw := popRaw("again", "consumerGroup=g&autoAck=true")
		require.Contains(t, raw, `"transactionId":"`+transaction+`"`)
		require.Equal(t, change[1] != "", strings.Contains(raw, `"headers":`+change[1]), raw)
	}
	c.redrive(`{"queue":"q","consumerGroup":"late","all":true}`)
	require.Contains(t, popRaw("push", "consumerGroup=late"), `"headers":`+travelled, "a redrive keeps the headers")
}

// Headers that cannot be stored are refused with their name, and nothing of the push is stored.
func TestHeadersAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	for headers, want := range map[string]string{
		`"x"`:         "items[0].headers must be an object of texts",
		`{"a":1}`:     "items[0].headers.a must be a text",
		`{"a b":"1"}`: "items[0].headers: a name of a header has 1 to 128 letters",
		`{"a":"\n"}`:  "items[0].headers.a has a control character",
	} {
		found, err := s.send(t.Context(), post("/api/v1/push", `{"items":[{"queue":"q","headers":`+headers+`}]}`))
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, found.Status)
		require.Contains(t, string(found.Raw), want)
		_, err = producer(t, s.dsn).Exec(t.Context(), `SELECT belfry.push('q', '1'::json, headers => $1::json)`, headers)
		require.Error(t, err, headers)
		execute(t, producer(t, s.dsn), `INSERT INTO belfry.inbox (queue, payload, headers) VALUES ('q', '1', $1)`, headers)
	}
	until(t, "the rows of the inbox are rejected", func() bool {
		var rejected int
		s.scan(t, `SELECT count(*) FROM belfry.inbox_rejected WHERE code = 'invalid' AND reason LIKE 'headers%'`, nil, &rejected)
		return rejected == 4
	})
	var stored int
	s.scan(t, `SELECT count(*) FROM belfry.message`, nil, &stored)
	require.Zero(t, stored)
}
