package data_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

// list returns n elements. element is the format of an element with its number.
func list(n int, element string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(element, "N", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// A call that exceeds a limit by one gets a 400 with the limit and its key.
func TestCallAboveALimitIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		route, body, element, want string
		limit                      int
	}{
		{"push", `{"items":[%s]}`, `{"queue":"q"}`, "more than 7 items (http.max_items)", 7},
		{"push", `{"items":[%s,{"queue":"q","partition":"0"}]}`, `{"queue":"q","partition":"N"}`, "more than 3 partitions (http.max_partitions)", 3},
		{"ack/batch", `{"acknowledgments":[%s]}`, `{"transactionId":"t","partitionId":"p"}`, "more than 5 acks (http.max_acks)", 5},
		{"transaction", `{"operations":[{"type":"push","items":[%s]}]}`, `{"queue":"q"}`, "more than 7 items (http.max_items)", 7},
		{"transaction", `{"operations":[%s,{"type":"push","queue":"q","partition":"0"}]}`, `{"type":"push","queue":"q","partition":"N"}`, "more than 3 partitions (http.max_partitions)", 3},
		{"transaction", `{"operations":[%s]}`, `{"type":"ack","transactionId":"t","partitionId":"p"}`, "more than 5 acks (http.max_acks)", 5},
	} {
		for n := test.limit; n <= test.limit+1; n++ {
			f := &apitest.Fakes{}
			s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MaxItems, cfg.MaxPartitions, cfg.MaxAcks = 7, 3, 5 })
			rec := apitest.Send(s, apitest.Request("POST", "/api/v1/"+test.route, fmt.Sprintf(test.body, list(n, test.element))))
			if n == test.limit {
				require.Less(t, rec.Code, 300, rec.Body)
				continue
			}
			require.Contains(t, apitest.RequireError(t, rec, 400), test.want)
			require.False(t, f.Reached(), "the call must not reach the store")
		}
	}
}
