package integration_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

type traced struct {
	ID         string   `json:"id"`
	EventType  string   `json:"event_type"`
	Data       any      `json:"data"`
	Group      string   `json:"consumer_group"`
	Worker     string   `json:"worker_id"`
	CreatedAt  string   `json:"created_at"`
	Names      []string `json:"trace_names"`
	Queue      string   `json:"queue_name"`
	Transction string   `json:"transaction_id"`
	Payload    any      `json:"message_payload"`
}

type traces struct {
	Traces     []traced `json:"traces"`
	Total      int      `json:"total"`
	Pagination struct{ Next *string }
	Names      []struct {
		Name     string `json:"trace_name"`
		Traces   int    `json:"trace_count"`
		Messages int    `json:"message_count"`
		LastSeen string `json:"last_seen"`
	} `json:"trace_names"`
}

func (c client) traces(path string) traces {
	c.t.Helper()
	return ask[traces](c, get("/api/v1/traces/"+path)).ok(http.StatusOK)
}

func (c client) trace(m letter, rest string) answer[struct {
	Success bool
	TraceID string
}] {
	c.t.Helper()
	body := fmt.Sprintf(`{"partitionId":%q,"transactionId":%q,%s}`, m.PartitionID, m.TransactionID, rest)
	return ask[struct {
		Success bool
		TraceID string
	}](c, post("/api/v1/traces", body))
}

func (t traces) data() []any {
	var out []any
	for _, one := range t.Traces {
		out = append(out, one.Data)
	}
	return out
}

func TestTraces(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	require.Empty(t, c.traces("names").Names)
	stored := c.pushIDs("q", "p", "a/ü%", "b")
	a := letter{PartitionID: stored[0].PartitionID, TransactionID: "a/ü%"}
	b := letter{PartitionID: stored[0].PartitionID, TransactionID: "b"}
	of := func(m letter) traces { return c.traces(m.PartitionID + "/" + escaped(m.TransactionID)) }
	require.Equal(t, []traced{}, of(a).Traces)

	requireUUID(t, c.trace(a, `"data":{"n":1}`).ok(http.StatusCreated).TraceID)
	c.trace(a, `"data":"two","traceNames":"flow ü/%","eventType":"done","consumerGroup":"g"`).ok(http.StatusCreated)
	c.trace(b, `"data":3,"traceNames":["flow ü/%","other","other"]`).ok(http.StatusCreated)
	none := c.trace(letter{PartitionID: a.PartitionID, TransactionID: "none"}, `"data":1`)
	require.Equal(t, http.StatusNotFound, none.Status)
	require.Equal(t, "Message not found", none.failure)

	got := of(a)
	require.Equal(t, []any{map[string]any{"n": 1.0}, "two"}, got.data(), "the oldest trace must be the first")
	require.Equal(t, []string{"info", "__QUEUE_MODE__"}, []string{got.Traces[0].EventType, got.Traces[0].Group})
	require.Equal(t, []string{"done", "g"}, []string{got.Traces[1].EventType, got.Traces[1].Group})
	require.Equal(t, []string{}, got.Traces[0].Names)
	require.Equal(t, []string{"flow ü/%"}, got.Traces[1].Names)

	flow := "by-name/" + url.PathEscape("flow ü/%")
	first := c.traces(flow + "?limit=1")
	require.Equal(t, []any{"two"}, first.data())
	require.Equal(t, 2, first.Total)
	require.Equal(t, []string{"q", "a/ü%"}, []string{first.Traces[0].Queue, first.Traces[0].Transction})
	require.Equal(t, []any{3.0}, c.traces(flow+"?limit=1&cursor="+*first.Pagination.Next).data())
	require.Equal(t, []any{3.0}, c.traces(flow+"?offset=1").data())
	require.Nil(t, c.traces(flow+"?offset=1").Pagination.Next)
	require.Equal(t, []traced{}, c.traces("by-name/none").Traces)

	names := c.traces("names")
	require.Equal(t, 2, names.Total)
	require.Equal(t, []any{"flow ü/%", 2, 2, "other", 1, 1}, []any{
		names.Names[0].Name, names.Names[0].Traces, names.Names[0].Messages, names.Names[1].Name, names.Names[1].Traces, names.Names[1].Messages,
	})
	require.Equal(t, "other", c.traces("names?limit=1&offset=1").Names[0].Name)
	require.Equal(t, names, c.traces("names?bound=1000"))
	newest := c.traces("names?bound=1")
	require.Equal(t, 1, newest.Names[0].Traces, "with bound=1 only the newest trace may be read")
	require.Equal(t, 1, c.traces(flow+"?bound=1").Total)
	require.Equal(t, 2, c.traces("names?offset=9").Total)

	existed, _ := c.deleteMessage(b)
	require.True(t, existed)
	require.Equal(t, []any{"two"}, c.traces(flow).data(), "traces must be deleted with their message")
	require.Len(t, c.traces("names").Names, 1)
	c.deleteQueue("q").ok(http.StatusOK)
	until(t, "the traces are deleted with their queue", func() bool {
		var n int
		c.scan(t, `SELECT (SELECT count(*) FROM belfry.trace) + (SELECT count(*) FROM belfry.trace_name)`, nil, &n)
		return n == 0
	})
}
