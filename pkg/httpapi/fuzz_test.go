package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// broken are bodies every parser must survive.
var broken = []string{
	"", " ", "\n", "{", "}", "[", "null", "true", "0", `""`, "{}", "[]", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{}x`, `{} {}`,
	"\ufeff{}", `{"":{}}`, `{"\ud800":1}`, `{"a":"\ud800\udc00\ud800"}`, `{"a":1e999}`, `{"a":-}`,
}

func seed(f *testing.F, bodies ...string) {
	f.Helper()
	for _, body := range append(bodies, broken...) {
		f.Add([]byte(body))
	}
}

// readable says whether the body would get past readBody.
func readable(body []byte) bool { return len(body) > 0 && firstInvalid(body) < 0 }

func requireName(t *testing.T, name string) {
	t.Helper()
	require.LessOrEqual(t, len(name), queue.MaxNameBytes)
	require.NotContains(t, name, "\x00")
	require.True(t, utf8.ValidString(name))
}

func FuzzParsePush(f *testing.F) {
	seed(f, onePush,
		`{"items":[{"queue":"q","partition":"p","transactionId":"t","traceId":"0190f5fe-1c2b-7abc-8def-0123456789ab","payload":{"a":[1,2.50,"\u00fc"]}}]}`,
		`{"items":[]}`, `{"items":null}`, `{"items":[1]}`, `{"items":[{}]}`, `{"items":[{"queue":"a\u0000"}]}`,
		`{"items":[{"queue":"q","payload":1,"payload":"\ud800"}],"items":[{"queue":"r"}]}`,
		`{ "items" : [ { "queue" : "q" , "payload" : { "b" : 1 , "a" : [ ] } } , { "queue" : "" } ] , "x" : {} }`,
	)
	f.Fuzz(func(t *testing.T, body []byte) {
		if !readable(body) {
			return
		}
		before := bytes.Clone(body)
		items, err := parsePush(body)
		require.Equal(t, before, body, "the body is only read")
		if err != nil {
			requireInvalid(t, err)
			require.Nil(t, items)
			return
		}
		require.True(t, json.Valid(body), "what is accepted is JSON")
		for i := range items {
			requireName(t, items[i].Queue)
			requireName(t, items[i].Partition)
			require.LessOrEqual(t, utf8.RuneCountInString(items[i].TransactionID), queue.MaxTransactionIDRunes)
			require.NotContains(t, items[i].TransactionID, "\x00")
			require.True(t, json.Valid(items[i].Payload))
			if string(items[i].Payload) != "null" { // what a missing payload is stored as
				require.True(t, bytes.Contains(body, items[i].Payload), "%q is not in the body", items[i].Payload)
			}
		}
	})
}

func FuzzParseAckBatch(f *testing.F) {
	seed(f, `{"acknowledgments":[]}`, `{"acknowledgments":null}`, `{"acknowledgments":[{}]}`,
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p","status":"failed","leaseId":"l","error":"e"}],"consumerGroup":"g"}`,
		`{"consumerGroup":null,"acknowledgments":[{"transactionId":"t","partitionId":"\ud800","status":7}]}`,
	)
	f.Fuzz(func(t *testing.T, body []byte) {
		if !readable(body) {
			return
		}
		items, err := parseAckBatch(body)
		if err != nil {
			requireInvalid(t, err)
			require.Nil(t, items)
			return
		}
		require.True(t, json.Valid(body), "what is accepted is JSON")
		for i := range items {
			require.NotEmpty(t, items[i].Group)
			require.Equal(t, items[0].Group, items[i].Group, "one group for the whole call")
			for _, text := range []string{items[i].TransactionID, items[i].PartitionID, items[i].Group, items[i].LeaseID, items[i].Error} {
				require.True(t, utf8.ValidString(text))
			}
		}
	})
}

func FuzzParseConfigure(f *testing.F) {
	seed(f, `{"queue":"q"}`, `{"queue":"q","namespace":"n","task":"t","options":{"leaseTime":60,"priority":-1,"retentionEnabled":true}}`,
		`{"queue":"q","options":null}`, `{"queue":"q","options":[]}`, `{"queue":"q","options":{"ttl":1e9}}`,
		`{"queue":"q","options":{"ttl":9223372036854775808}}`, `{"queue":"q","options":{"leasetime":1,"maxDeliveries":2,"retryDelay":5}}`, `{"queue":"q","options":{"leaseTime":2147483648}}`,
	)
	defaults := queue.DefaultDefaults().Options()
	f.Fuzz(func(t *testing.T, body []byte) {
		if !readable(body) {
			return
		}
		set, err := parseConfigure(body, defaults)
		if err != nil {
			requireInvalid(t, err)
			return
		}
		require.True(t, json.Valid(body), "what is accepted is JSON")
		requireOptions(t, set.Settings)
		_ = set.warnings()
		echoed, err := set.echo()
		require.NoError(t, err)
		require.True(t, json.Valid(echoed))
	})
}

func FuzzPopQuery(f *testing.F) {
	for _, query := range []string{
		"", "batch=7&partitions=3&wait=true&timeout=1500&autoAck=1&consumerGroup=g", "batch=-1&partitions=0&wait=1&timeout=-5",
		"batch=99999999999999999999", "batch=+", "batch=%20%2B7x", "consumerGroup=%ff", "consumerGroup=%00", "consumerGroup=%zz",
		"subscriptionMode=new", "subscriptionFrom=now", "subscriptionFrom=2026-05-16T08:41:27.5%2B02:00", "subscriptionFrom=0000-01-01",
		"a;b=c", "&&&===", "batch", "wait=true&timeout=600001", "wait=true&timeout=9223372036854775807",
	} {
		f.Add(query)
	}
	s, _ := newServer(&fakes{})
	f.Fuzz(func(t *testing.T, query string) {
		req, err := readQuery(s, query)
		if err != nil {
			requireInvalid(t, err)
			require.Nil(t, req)
			return
		}
		require.True(t, 1 <= req.Batch && req.Batch <= maxBatch, "%d", req.Batch)
		require.True(t, 1 <= req.Partitions && req.Partitions <= maxPartitions, "%d", req.Partitions)
		require.True(t, 0 <= req.Wait && req.Wait <= maxWait, "%s", req.Wait)
		require.NotEmpty(t, req.Group)
		requireName(t, req.Group)
		switch req.Subscription.Mode {
		case queue.SubscribeAll, queue.SubscribeNew:
			require.True(t, req.Subscription.From.IsZero())
		case queue.SubscribeFrom:
		default:
			require.Fail(t, "no mode", "%q", req.Subscription.Mode)
		}
	})
}
