package operate_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// extensions returns the defaults of the options that Queen MQ does not have, with edits.
func extensions(edit ...func(*queue.Extensions)) queue.Extensions {
	x := queue.DefaultDefaults().Extensions()
	for _, e := range edit {
		e(&x)
	}
	return x
}

// If Queen MQ does not have an option, the answer has the option only if the request sent it.
func TestExtensionsAreAnsweredWhenTheyAreSent(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]queue.Extensions{
		``: extensions(), `"expireAfterSeconds":null,"maxDeliveries":null,"deadLetterExpired":null`: extensions(),
		`"expireAfterSeconds":0,"deadLetterExpired":false,"maxDeliveries":0`: extensions(),
		`"expireAfterSeconds":5,"deadLetterExpired":true,"maxDeliveries":3`:  extensions(func(x *queue.Extensions) { x.ExpireAfterSeconds, x.DeadLetterExpired, x.MaxDeliveries = 5, true, 3 }),
		`"tenantDelimiter":"."`: extensions(func(x *queue.Extensions) { x.TenantDelimiter = "." }),
		`"expireAfterSeconds":7`: extensions(func(x *queue.Extensions) { x.ExpireAfterSeconds = 7 }),
		`"retryDelay":1000`:      extensions(), `"retryDelay":0`: extensions(),
		`"retryBackoff":1,"retryDelayMax":0`: {RetryBackoff: 1},
	} {
		f := &apitest.Fakes{}
		rec := apitest.Call(f, "POST", "/api/v1/configure", `{"queue":"q","options":{`+options+`}}`)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.Equal(t, want, f.Configured[0].Extensions, options)
		var body struct {
			Options  map[string]json.RawMessage `json:"options"`
			Warnings []string                   `json:"warnings"`
		}
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body))
		require.Empty(t, body.Warnings, options)
		var sent map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte("{"+options+"}"), &sent))
		extra := 0
		for name, value := range sent {
			if string(value) != "null" {
				require.Equal(t, string(value), string(body.Options[name]), name)
				if name != "retryDelay" {
					extra++
				}
			}
		}
		require.Len(t, body.Options, 15+extra, "the fifteen options of Queen MQ, and the other options that were sent: %s", options)
	}
}

// If a body has two options objects, only the last object counts.
func TestTheLastOptionsObjectCounts(t *testing.T) {
	t.Parallel()
	set, err := operate.ParseConfigure([]byte(`{"queue":"q","options":{"maxDeliveries":3,"retryDelay":5,"ttI":1},"options":{}}`), queue.Defaults{})
	require.NoError(t, err)
	require.Zero(t, set.Extensions)
	require.Empty(t, set.Warnings)
}

func TestConfigureWarnsAboutIneffectiveOptions(t *testing.T) {
	t.Parallel()
	const dead = " false has no effect: a message without remaining retries always becomes a dead letter"
	for options, want := range map[string][]string{
		``: nil, `"ttl":0`: nil, `"deadLetterQueue":true,"dlqAfterMaxRetries":true`: nil,
		`"deadLetterExpired":true,"expireAfterSeconds":1`: nil,
		`"retentionSeconds":5,"retentionEnabled":true`:    nil,
		`"leasetime":1`:           {"options.leasetime is unknown and was dropped: did you mean leaseTime?"},
		`"maxDelivery":1,"tll":2`: {"options.maxDelivery is unknown and was dropped: did you mean maxDeliveries?", "options.tll is unknown and was dropped: did you mean ttl?"},
		`"colour":[1],"colour":2`: {"options.colour is unknown and was dropped"},
		`"":1`:                    {"options. is unknown and was dropped"},
		`"ttl":3600`:              {"options.ttl has no effect, because clients send it by default and messages would then be deleted: set expireAfterSeconds to make messages expire"},
		`"deadLetterQueue":false`: {"options.deadLetterQueue" + dead},
		`"dlqAfterMaxRetries":false,"x":null`: {
			"options.x is unknown and was dropped", "options.dlqAfterMaxRetries" + dead,
		},
		`"retentionSeconds":5,"completedRetentionSeconds":6`: {
			"options.retentionSeconds has no effect without retentionEnabled true",
			"options.completedRetentionSeconds has no effect without retentionEnabled true",
		},
		`"deadLetterExpired":true`: {"options.deadLetterExpired has no effect without expireAfterSeconds"},
	} {
		rec := apitest.Call(&apitest.Fakes{}, "POST", "/api/v1/configure", `{"queue":"q","options":{`+options+`}}`)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		var body struct {
			Warnings []string `json:"warnings"`
		}
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body))
		require.Equal(t, want, body.Warnings, options)
		require.Equal(t, want != nil, strings.Contains(rec.Body.String(), `"warnings"`), "without a warning, the member warnings is absent")
	}
}

func TestTheListOfUnknownOptionsIsBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 1000 {
		names = append(names, `"`+strings.Repeat("x", 500)+strconv.Itoa(i)+`":1`)
	}
	set, err := operate.ParseConfigure([]byte(`{"queue":"q","options":{`+strings.Join(names, ",")+`}}`), queue.Defaults{})
	require.NoError(t, err)
	warnings := set.Warnings
	require.Len(t, warnings, operate.MaxUnknown+1)
	require.Equal(t, "further unknown options were dropped", warnings[operate.MaxUnknown])
	require.Less(t, len(warnings[0]), 150)
}

func TestExtensionsOfAWrongTypeAreRefused(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{
		`"maxDeliveries":"3"`:             `options.maxDeliveries must be a whole number, not "3"`,
		`"maxDeliveries":-1`:              "options.maxDeliveries is -1: it must be between 0 and 2147483647",
		`"expireAfterSeconds":1.5`:        "options.expireAfterSeconds must be a whole number, not 1.5",
		`"expireAfterSeconds":2147483648`: "options.expireAfterSeconds is 2147483648: it must be between 0 and 2147483647",
		`"priority":-2147483648`:          "options.priority is -2147483648: it must be between -2147483647 and 2147483647",
		`"deadLetterExpired":1`:           "options.deadLetterExpired must be true or false, not 1",
	} {
		f := &apitest.Fakes{}
		rec := apitest.Call(f, "POST", "/api/v1/configure", `{"queue":"q","options":{`+option+`}}`)
		require.Equal(t, want, apitest.RequireError(t, rec, http.StatusBadRequest))
		require.False(t, f.Reached())
	}
}
