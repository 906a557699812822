package data_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// readable reports whether wire.BodyReader accepts the body.
func readable(body []byte) bool { return len(body) > 0 && utf8.Valid(body) }

func FuzzParsePush(f *testing.F) {
	apitest.Seed(f, apitest.OnePush,
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
		items, err := data.ParsePush(body)
		require.Equal(t, before, body, "the body does not change")
		if err != nil {
			apitest.RequireInvalid(t, err)
			require.Nil(t, items)
			return
		}
		require.True(t, json.Valid(body), "an accepted body is JSON")
		for i := range items {
			apitest.RequireName(t, items[i].Queue)
			apitest.RequireName(t, items[i].Partition)
			require.LessOrEqual(t, utf8.RuneCountInString(items[i].TransactionID), queue.MaxTransactionIDRunes)
			require.NotContains(t, items[i].TransactionID, "\x00")
			require.True(t, json.Valid(items[i].Payload))
			if string(items[i].Payload) != "null" { // a missing payload is stored as null
				require.True(t, bytes.Contains(body, items[i].Payload), "%q is not in the body", items[i].Payload)
			}
		}
	})
}

func FuzzParseAckBatch(f *testing.F) {
	apitest.Seed(f, `{"acknowledgments":[]}`, `{"acknowledgments":null}`, `{"acknowledgments":[{}]}`,
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p","status":"failed","leaseId":"l","error":"e"}],"consumerGroup":"g"}`,
		`{"consumerGroup":null,"acknowledgments":[{"transactionId":"t","partitionId":"\ud800","status":7}]}`,
	)
	f.Fuzz(func(t *testing.T, body []byte) {
		if !readable(body) {
			return
		}
		items, err := data.ParseAckBatch(body)
		if err != nil {
			apitest.RequireInvalid(t, err)
			require.Nil(t, items)
			return
		}
		require.True(t, json.Valid(body), "an accepted body is JSON")
		for i := range items {
			require.NotEmpty(t, items[i].Group)
			require.Equal(t, items[0].Group, items[i].Group, "all items have the group of the call")
			for _, text := range []string{items[i].TransactionID, items[i].PartitionID, items[i].Group, items[i].LeaseID, items[i].Error} {
				require.True(t, utf8.ValidString(text))
			}
		}
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
	f.Fuzz(func(t *testing.T, query string) {
		req, err := readQuery(queue.DefaultDefaults(), query)
		if err != nil {
			apitest.RequireInvalid(t, err)
			require.Nil(t, req)
			return
		}
		require.True(t, 1 <= req.Batch && req.Batch <= data.MaxBatch, "%d", req.Batch)
		require.True(t, 1 <= req.Partitions && req.Partitions <= data.MaxPartitions, "%d", req.Partitions)
		require.True(t, 0 <= req.Wait && req.Wait <= data.MaxWait, "%s", req.Wait)
		require.NotEmpty(t, req.Group)
		apitest.RequireName(t, req.Group)
		switch req.Subscription.Mode {
		case queue.SubscribeAll, queue.SubscribeNew:
			require.True(t, req.Subscription.From.IsZero())
		case queue.SubscribeFrom:
		default:
			require.Fail(t, "no mode", "%q", req.Subscription.Mode)
		}
	})
}

// FuzzAck sends any body to the route of one ack.
func FuzzAck(f *testing.F) {
	apitest.Seed(f, `{"transactionId":"t","partitionId":"p","status":"failed","leaseId":"l","error":"e","consumerGroup":"g"}`,
		`{"transactionId":"\u0000","partitionId":"\ud800","error":"\u0000","consumerGroup":"\u0000"}`,
		`{"transactionId":1,"partitionId":"p"}`, `{"transactionId":"t"}`, `{"status":null,"transactionId":"t","partitionId":""}`,
	)
	p := apitest.NewProbe()
	f.Fuzz(func(t *testing.T, body []byte) { p.Ask(t, apitest.FuzzRequest("POST", "/api/v1/ack", body)) })
}

// FuzzTransaction sends any body to the route of transactions.
func FuzzTransaction(f *testing.F) {
	apitest.Seed(f, oneTransaction, `{"operations":[{"type":"push","queue":"q","data":1},{"type":"merge"}]}`,
		`{"operations":[{"type":"push","items":[{"queue":"\u0000","payload":null},7]}],"requiredLeases":["",null,"x"]}`,
		`{"operations":[{"type":"ack","transactionId":"\u0000","partitionId":"p","error":"\u0000","consumerGroup":"\u0000"}]}`,
		`{"operations":[{"type":7}]}`, `{"operations":[],"requiredLeases":{}}`,
	)
	p := apitest.NewProbe()
	f.Fuzz(func(t *testing.T, body []byte) { p.Ask(t, apitest.FuzzRequest("POST", "/api/v1/transaction", body)) })
}

// FuzzExtend sends any body to the route that extends a lease.
func FuzzExtend(f *testing.F) {
	apitest.Seed(f, `{"seconds":60}`, `{"seconds":null}`, `{"seconds":0}`, `{"seconds":604800}`, `{"seconds":604801}`, `{"seconds":3e2}`,
		`{"seconds":1.5}`, `{"seconds":-1e400}`, `{"seconds":"60"}`, `{"seconds":9223372036854775808}`, `{"seconds":[],"seconds":1}`,
	)
	p := apitest.NewProbe()
	f.Fuzz(func(t *testing.T, body []byte) {
		p.Ask(t, apitest.FuzzRequest("POST", "/api/v1/lease/"+apitest.IDOne.String()+"/extend", body))
	})
}
