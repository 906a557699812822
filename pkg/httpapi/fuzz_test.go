package httpapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

// target replaces the parameters of a route with texts. It does not escape them.
func target(r httpapi.Route, one, two, query string) string {
	path := strings.NewReplacer(":group", one, ":queue", one, ":leaseId", one, ":name", one, ":partitionId", one, ":transactionId", two,
		":partition", two).Replace(r.Path)
	if query != "" {
		path += "?" + query
	}
	return path
}

// FuzzRoutes sends any request to any route.
func FuzzRoutes(f *testing.F) {
	p := apitest.NewProbe()
	routes := slices.SortedFunc(slices.Values(p.Server.Routes()), func(a, b httpapi.Route) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	bodies := []string{
		`{"name":"n","source_queue":"q","config_hash":"h","reset":true}`, `{"query_id":"i","partition_id":"p","keys":["k"],"key_prefix":"k","ripe_at_or_before":1e3}`,
		`{"query_id":"i","partition_id":"p","state_ops":[{"type":"upsert","key":"k","value":{"windowEnd":1}},{"type":"delete","key":"k"}],` +
			`"push_items":[{"queue":"q"}],"ack":{"transactionId":"t","count":2}}`,
		"", apitest.OnePush, `{"transactionId":"t","partitionId":"p"}`, `{"acknowledgments":[{"transactionId":"t","partitionId":"p"}]}`,
		`{"toEnd":true}`, `{"timestamp":"2026-05-16","subscriptionTimestamp":"2026-05-16"}`, `{"toEnd":1}`,
		`{"seconds":60}`, `{"queue":"q"}`, `{"operations":[{"type":"push","items":[{"queue":"q","payload":{"a":1},"transactionId":"t"}]},` +
			`{"type":"ack","transactionId":"t","partitionId":"p","status":"completed"}],"requiredLeases":["l"]}`, `{"items":[{"queue":1}]}`, strings.Repeat(" ", apitest.SmallBody+1),
	}
	for i := range routes {
		for _, body := range bodies {
			f.Add(byte(i), "q", "Default", "batch=7&consumerGroup=g&namespace=n", []byte(body))
		}
		f.Add(byte(i), apitest.IDOne.String(), "p%2Fq", "wait=1&timeout=5&task=%00", []byte(`{"seconds":0}`))
		f.Add(byte(i), "%ff", "%zz", "consumerGroup=%00&task=%ff", []byte("\xff"))
		f.Add(byte(i), "a/b", "", "namespace=%00", []byte("{"))
	}
	f.Fuzz(func(t *testing.T, route byte, one, two, query string, body []byte) {
		at := routes[int(route)%len(routes)]
		if r := apitest.FuzzRequest(at.Method, target(at, one, two, query), body); r != nil {
			p.Ask(t, r)
		}
	})
}
