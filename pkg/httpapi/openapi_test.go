package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
	"github.com/belfry-mq/belfry/test/apitest"
	"github.com/belfry-mq/belfry/test/contract"
)

// Every documented operation is a route, too.
func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	document, err := contract.Load()
	require.NoError(t, err)
	s, _ := apitest.Server(&apitest.Fakes{})
	parameter := regexp.MustCompile(`:([A-Za-z]+)`)
	var routes []string
	for _, route := range s.Routes() {
		routes = append(routes, route.Method+" "+parameter.ReplaceAllString(route.Path, "{$1}"))
	}
	slices.Sort(routes)
	require.NotEmpty(t, routes)
	require.Equal(t, routes, document.Operations())
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	s, _ := apitest.Server(&apitest.Fakes{})
	got := apitest.Send(s, httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody))
	require.Equal(t, http.StatusOK, got.Code)
	require.Equal(t, "application/json", got.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", got.Header().Get("Cache-Control"))
	require.Equal(t, string(openapi.Document), strings.Replace(got.Body.String(), `"version": "1.2.3"`, `"version": "unknown"`, 1))
	require.Contains(t, got.Body.String(), `"version": "1.2.3"`, "the version is the one of the server")
	tag := got.Header().Get("ETag")
	require.Regexp(t, `^"[0-9a-f]{24}"$`, tag)

	for known, status := range map[string]int{
		tag: http.StatusNotModified, "W/" + tag: http.StatusNotModified, "*": http.StatusNotModified,
		`"other", ` + tag: http.StatusNotModified, `"other"`: http.StatusOK, "": http.StatusOK,
	} {
		r := httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody)
		r.Header.Set("If-None-Match", known)
		got := apitest.Send(s, r)
		require.Equal(t, status, got.Code, known)
		require.Equal(t, tag, got.Header().Get("ETag"), known)
		require.Equal(t, status == http.StatusOK, got.Body.Len() > 0, known)
	}
}
