package operate_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func FuzzParseConfigure(f *testing.F) {
	apitest.Seed(f, `{"queue":"q"}`, `{"queue":"q","namespace":"n","task":"t","options":{"leaseTime":60,"priority":-1,"retentionEnabled":true}}`,
		`{"queue":"q","options":null}`, `{"queue":"q","options":[]}`, `{"queue":"q","options":{"ttl":1e9}}`,
		`{"queue":"q","options":{"ttl":9223372036854775808}}`, `{"queue":"q","options":{"leasetime":1,"maxDeliveries":2,"retryDelay":5}}`, `{"queue":"q","options":{"leaseTime":2147483648}}`,
	)
	defaults := queue.DefaultDefaults()
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || !utf8.Valid(body) {
			return
		}
		set, err := operate.ParseConfigure(body, defaults)
		if err != nil {
			apitest.RequireInvalid(t, err)
			return
		}
		require.True(t, json.Valid(body), "an accepted body is JSON")
		apitest.RequireOptions(t, set.Settings)
		require.True(t, json.Valid(set.OptionsInForce))
	})
}
