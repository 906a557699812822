package integration_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

func (c client) attempts(m letter) api.MessageAttempts {
	c.t.Helper()
	return ask[api.MessageAttempts](c, get(messagePath(m, "/attempts"))).ok(http.StatusOK)
}

// failed pushes a message and makes it a dead letter of the group g after one failure.
func (c client) failed(queue, payload string) letter {
	c.t.Helper()
	ask[any](c, post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"partition":"p","transactionId":"t1","payload":%s}]}`, queue, payload))).ok(http.StatusCreated)
	for _, status := range []string{"failed", "dlq"} {
		d := c.pop(queue, "consumerGroup=g").ok(http.StatusOK)
		one := d.ack(status)[0]
		one.Error = "no " + status
		c.ackBatch("g", one).ok(http.StatusOK)
	}
	return c.dlq("queue=" + url.QueryEscape(queue)).Messages[0]
}

// The failed attempts of a message have their instants, and stay after a redrive.
func TestAttemptsHaveInstants(t *testing.T) {
	c := start(t).client(t)
	c.configure("q", map[string]any{"retryDelay": 0})
	m := c.failed("q", `{"n":1}`)
	found := c.attempts(m).Attempts
	require.Len(t, found, 2)
	require.Equal(t, []string{"dlq", "failed"}, []string{found[0].Result, found[1].Result}, "the newest first")
	require.Equal(t, "no failed", *found[1].Error)
	require.False(t, found[1].DeliveredAt.After(found[1].FailedAt))
	require.NotEmpty(t, *found[1].Consumer)
	require.Contains(t, *found[1].Instance, ":")
	ask[any](c, post(messagePath(m, "/retry"), "")).ok(http.StatusOK)
	require.Len(t, c.attempts(m).Attempts, 2, "a redrive keeps the attempts")
	require.Empty(t, ask[api.MessageAttempts](c, get(messagePath(m, "/attempts?consumerGroup=other"))).ok(http.StatusOK).Attempts)
}

// A resend pushes the changed message, marks the old one and deletes its dead letter. A repeated request sends nothing.
func TestAMessageIsSentAgainOnce(t *testing.T) {
	c := start(t).client(t)
	c.configure("q", map[string]any{"retryDelay": 0, "encryptionEnabled": false})
	m := c.failed("q", `{"n":1}`)
	body := `{"payload":{"n":2},"queue":"other","partition":"mended","transactionId":"t1-mended","remove":true,"consumerGroup":"g"}`
	var done sync.WaitGroup
	ids := make([]string, 4)
	for i := range ids {
		done.Go(func() { ids[i] = ask[api.ResentMessage](c, post(messagePath(m, "/resend"), body)).ok(http.StatusOK).ID })
	}
	done.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	d := c.pop("other", "batch=9").ok(http.StatusOK)
	require.Len(t, d.Messages, 1, "four clicks send one message")
	require.Equal(t, "mended", d.Messages[0].Partition)
	text, err := json.Marshal(d.Messages[0].Data)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":2}`, string(text))
	require.Zero(t, c.dlq("queue=q").Total, "the dead letter is deleted")
	marks := c.attempts(m).Resent
	require.Len(t, marks, 1)
	require.Equal(t, []string{ids[0], "other", "mended", "t1-mended"}, []string{marks[0].ID, marks[0].Queue, marks[0].Partition, marks[0].TransactionID})
	require.NotNil(t, marks[0].PartitionID)
	require.Equal(t, "message.resend", c.audit("action=message.resend").Entries[0].Action)
	refused := ask[any](c, post(messagePath(m, "/resend"), strings.Replace(body, `"n":2`, `"n":3`, 1))).reply
	require.Equal(t, http.StatusBadRequest, refused.Status, "the same id with another payload")
	require.Contains(t, string(refused.Raw), "choose another one")
	require.Equal(t, http.StatusBadRequest, ask[any](c, post(messagePath(m, "/resend"), `{"paylod":1}`)).Status)
	require.Equal(t, http.StatusBadRequest, ask[any](c, post(messagePath(m, "/resend"), `{"payload":{"n":}}`)).Status)
}

// A list as CSV has the rows of the list. A cell that a spreadsheet would run is text.
func TestListsAsCSV(t *testing.T) {
	c := start(t).client(t)
	c.configure("q", map[string]any{"retryDelay": 0})
	c.failed("q", `{"text":"a,\"b\"\r\n"}`)
	c.exec(`UPDATE belfry.dead_letter SET error = '=HYPERLINK("http://x")'`)
	list, err := c.send(t.Context(), get("/api/v1/dlq?queue=q&format=csv"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, list.Status, list.Raw)
	rows, err := csv.NewReader(strings.NewReader(string(list.Raw))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, []string{"failedAt", "queue", "partition", "consumerGroup", "transactionId", "retryCount", "errorMessage", "data"}, rows[0][:8])
	require.Equal(t, []string{"q", "p", "g", "t1"}, rows[1][1:5])
	require.Equal(t, `'=HYPERLINK("http://x")`, rows[1][6])
	require.JSONEq(t, `{"text":"a,\"b\"\r\n"}`, rows[1][7])
	messages, err := c.send(t.Context(), get("/api/v1/messages?queue=q&format=csv"))
	require.NoError(t, err)
	rows, err = csv.NewReader(strings.NewReader(string(messages.Raw))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"q", "p", "t1", "dead_letter"}, rows[1][1:5])
	require.Equal(t, http.StatusBadRequest, ask[any](c, get("/api/v1/dlq?format=xml")).Status)
}
