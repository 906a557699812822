package httpapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

// documented is what the test below reads of the OpenAPI document.
type documented struct {
	Paths map[string]map[string]struct {
		Parameters []documentedParameter
	}
	Components struct {
		Parameters map[string]documentedParameter
	}
}

type documentedParameter struct {
	Ref      string `json:"$ref"`
	In, Name string
	Schema   struct {
		Ref string `json:"$ref"`
	}
}

// Each instant in a query may have a zone whose plus is not encoded, so that it arrives as a space.
func TestEveryInstantOfAQueryMayHaveAZone(t *testing.T) {
	t.Parallel()
	var document documented
	require.NoError(t, json.Unmarshal(openapi.Document, &document))
	instants := map[string]bool{"from": true, "to": true, "timestamp": true, "subscriptionFrom": true}
	found := 0
	for path, methods := range document.Paths {
		for method, operation := range methods {
			for _, p := range operation.Parameters {
				if p.Ref != "" {
					p = document.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				}
				if p.In != "query" || !instants[p.Name] || p.Schema.Ref != "" { // a name
					continue
				}
				found++
				filter := "queue=q&"
				if path == "/api/v1/pop" {
					filter = "namespace=n&"
				}
				target := pathOf(regexp.MustCompile(`\{(\w+)\}`).ReplaceAllString(path, ":$1")) + "?" + filter + p.Name + "="
				send := func(value string) (status int, text string) {
					s, _ := apitest.Server(&apitest.Fakes{})
					rec := apitest.Send(s, apitest.Request(strings.ToUpper(method), target+value, ""))
					return rec.Code, rec.Body.String()
				}
				status, text := send("nonsense")
				require.Equal(t, http.StatusBadRequest, status, "%s %s", method, target)
				require.Contains(t, text, p.Name)
				status, text = send(time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04:05.000000") + "+02:00") // an hour ago
				require.Less(t, status, http.StatusBadRequest, "%s %s: %s", method, target, text)
			}
		}
	}
	require.Greater(t, found, 30)
}
