package operate_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestParseConfigureReplacesAllOptions(t *testing.T) {
	t.Parallel()
	defaults := queue.DefaultDefaults()
	settings := func(edit ...func(*catalog.Settings)) catalog.Settings {
		set := catalog.Settings{Queue: "q", Options: defaults.Options(), Extensions: defaults.Extensions()}
		for _, e := range edit {
			e(&set)
		}
		return set
	}
	option := func(edit func(*queue.Options)) func(*catalog.Settings) {
		return func(set *catalog.Settings) { edit(&set.Options) }
	}
	for body, want := range map[string]catalog.Settings{
		`{"queue":"q"}`: settings(),
		`{"queue":""}`:  settings(func(s *catalog.Settings) { s.Queue = "" }),
		`{"queue":"q","namespace":"n","task":"t"}`:  settings(func(s *catalog.Settings) { s.Namespace, s.Task = "n", "t" }),
		`{"queue":"q","namespace":null,"task":7}`:   settings(),
		`{"queue":"q","options":{}}`:                settings(),
		`{"queue":"q","options":null}`:              settings(),
		`{"queue":"q","options":{"unknown":[1]}}`:   settings(),
		`{"queue":"q","options":{"LeaseTime":7}}`:   settings(),
		`{"queue":"q","options":{"ttl":null}}`:      settings(),
		`{"options":{"leaseTime":7},"queue":"q"}`:   settings(option(func(o *queue.Options) { o.LeaseTime = 7 })),
		`{"queue":"q","options":{"priority":-7}}`:   settings(option(func(o *queue.Options) { o.Priority = -7 })),
		`{"queue":"q","options":{"retryLimit":0}}`:  settings(option(func(o *queue.Options) { o.RetryLimit = 0 })),
		`{"queue":"q","options":{"leaseTime":6e1}}`: settings(option(func(o *queue.Options) { o.LeaseTime = 60 })),
		`{"queue":"q","options":{"maxSize":2147483647}}`: settings(option(func(o *queue.Options) {
			o.MaxSize = 2147483647
		})),
		`{"queue":"q","options":{"deadLetterQueue":true,"deadLetterQueue":false}}`: settings(),
		`{"queue":"q","options":{"leaseTime":7},"options":{"retryLimit":1}}`: settings(option(func(o *queue.Options) {
			o.RetryLimit = 1
		})),
	} {
		set, err := operate.ParseConfigure([]byte(body), defaults)
		require.NoError(t, err, body)
		require.Equal(t, want, set.Settings, body)
	}
}

func TestParseConfigureNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                            "queue is required",
		`{"queue":null}`:                "queue is required",
		`{"queue":7}`:                   "queue is required",
		`{"queue":"q","queue":7}`:       "queue is required",
		`{"queue":"a\u0000"}`:           "queue contains a NUL character",
		`{"queue":"q","task":"\u0000"}`: "task contains a NUL character",
		`{"queue":"q","namespace":"` + strings.Repeat("x", 256) + `"}`: "namespace is 256 bytes long",
		`{"queue":"q","options":[]}`:                                   "options must be an object",
		`{"queue":"q","options":"x"}`:                                  "options must be an object",
		`{"queue":"q","options":{"leaseTime":"60"}}`:                   `options.leaseTime must be a whole number, not "60"`,
		`{"queue":"q","options":{"leaseTime":1.5}}`:                    "options.leaseTime must be a whole number, not 1.5",
		`{"queue":"q","options":{"leaseTime":true}}`:                   "options.leaseTime must be a whole number, not true",
		`{"queue":"q","options":{"leaseTime":-1}}`:                     "options.leaseTime is -1: it must be between 0 and 2147483647",
		`{"queue":"q","options":{"ttl":2147483648}}`:                   "options.ttl is 2147483648: it must be between 0 and 2147483647",
		`{"queue":"q","options":{"priority":-2147483648}}`:             "options.priority is -2147483648",
		`{"queue":"q","options":{"retentionEnabled":1}}`:               "options.retentionEnabled must be true or false, not 1",
		`{"queue":"q","options":{"deadLetterQueue":"true"}}`:           `options.deadLetterQueue must be true or false, not "true"`,
		`{"queue":"q","options":{"ttl":1}`:                             "Invalid JSON",
	} {
		_, err := operate.ParseConfigure([]byte(body), queue.Defaults{})
		apitest.RequireInvalid(t, err)
		require.ErrorContains(t, err, want, body)
	}
}

// Every option of queue.Options is read and answered under its own name.
func TestEveryOptionIsReadAndAnswered(t *testing.T) {
	t.Parallel()
	var all queue.Options
	v := reflect.ValueOf(&all).Elem()
	for i := range v.NumField() {
		switch field := v.Field(i); field.Kind() {
		case reflect.Int64:
			field.SetInt(int64(1000 + i))
		case reflect.Bool:
			field.SetBool(true)
		default:
			require.Fail(t, "an option has a type that the test does not support", v.Type().Field(i).Name)
		}
	}
	require.Equal(t, 15, v.NumField())
	sent, err := json.Marshal(all)
	require.NoError(t, err)
	f := &apitest.Fakes{}
	rec := apitest.Call(f, "POST", "/api/v1/configure", `{"queue":"a \"b\"","namespace":"n","task":"t","options":`+string(sent)+`}`)
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	require.Equal(t, []catalog.Settings{{
		Queue: `a "b"`, Namespace: "n", Task: "t", Options: all,
		Extensions: queue.DefaultDefaults().Extensions(),
	}}, f.Configured)
	require.JSONEq(t, `{"configured":true,"queueId":"`+apitest.IDOne.String()+`","partitionId":"`+apitest.IDTwo.String()+`",
		"queue":"a \"b\"","namespace":"n","task":"t","options":`+string(sent)+`,
		"warnings":["options.ttl has no effect, because clients send it by default and messages would then be deleted: set expireAfterSeconds to make messages expire"]}`,
		rec.Body.String())
}

func TestAbsentOptionsGetTheDefaultsOfTheServer(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	defaults := queue.DefaultDefaults()
	defaults.RetryLimit = 9
	s, _ := apitest.Server(f, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Defaults = defaults })
	request := func(body string) { apitest.SendOK(t, s, apitest.Request("POST", "/api/v1/configure", body)) }
	request(`{"queue":"q","options":{"leaseTime":7,"retryLimit":1}}`)
	request(`{"queue":"q"}`)
	require.Equal(t, int64(1), f.Configured[0].Options.RetryLimit)
	require.Equal(t, defaults.Options(), f.Configured[1].Options, "the earlier call has no effect")
}

func TestCatalogErrorsAreAnswered(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{
		Configure: func(catalog.Settings) (catalog.Configured, error) { return catalog.Configured{}, errors.New("x") },
		Delete:    func(string) (bool, error) { return true, &queue.Error{Code: queue.CodeUnavailable, Message: "away"} },
	}
	apitest.RequireError(t, apitest.Call(f, "POST", "/api/v1/configure", `{"queue":"q"}`), 500)
	require.Equal(t, "away", apitest.RequireError(t, apitest.Call(f, "DELETE", "/api/v1/resources/queues/q", ""), 503))
}

func TestDeleteReportsWhetherTheQueueExisted(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Delete: func(name string) (bool, error) { return name == "a b/ü", nil }}
	rec := apitest.Call(f, "DELETE", "/api/v1/resources/queues/a%20b%2F%C3%BC", "")
	require.Equal(t, http.StatusOK, rec.Code)
	require.JSONEq(t, `{"deleted":true,"queue":"a b/ü","existed":true}`, rec.Body.String())
	rec = apitest.Call(f, "DELETE", "/api/v1/resources/queues/other", "")
	require.JSONEq(t, `{"deleted":true,"queue":"other","existed":false}`, rec.Body.String())
	require.Equal(t, []string{"a b/ü", "other"}, f.Deleted)
}
