package httpapi_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
	"github.com/belfry-mq/belfry/test/apitest"
	"github.com/belfry-mq/belfry/test/contract"
)

// Every route is a documented operation, and every documented operation is a route.
func TestEveryRouteIsDocumented(t *testing.T) {
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

// docs/compatibility.md lists each route of Queen MQ, and says which routes Belfry does not serve.
func TestTheCompatibilityPageListsTheRoutes(t *testing.T) {
	page, err := os.ReadFile("../../docs/compatibility.md")
	require.NoError(t, err)
	s, _ := apitest.Server(&apitest.Fakes{})
	parameter := regexp.MustCompile(`:([A-Za-z]+)`)
	known := map[string]bool{}
	for _, route := range s.Routes() {
		known[route.Method+" "+parameter.ReplaceAllString(route.Path, ":x")] = true
	}
	rows := regexp.MustCompile("(?m)^\\| `(GET|POST|DELETE) (/[^`]*)` \\| (same|better|not served) \\|").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(rows), 60)
	for _, row := range rows {
		require.True(t, known[row[1]+" "+parameter.ReplaceAllString(row[2], ":x")], row[0])
		if !strings.Contains(row[2], ":") && (row[3] == "not served" || row[1] == http.MethodGet) {
			got := apitest.Send(s, httptest.NewRequest(row[1], row[2], http.NoBody))
			require.Equal(t, row[3] == "not served", got.Code == http.StatusNotImplemented, row[0])
		}
	}
}

func TestDocumentIsServed(t *testing.T) {
	s, _ := apitest.Server(&apitest.Fakes{})
	got := apitest.Send(s, httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody))
	require.Equal(t, http.StatusOK, got.Code)
	require.Equal(t, "application/json", got.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", got.Header().Get("Cache-Control"))
	require.Equal(t, string(openapi.Document), strings.Replace(got.Body.String(), `"version": "1.2.3"`, `"version": "unknown"`, 1))
	require.Contains(t, got.Body.String(), `"version": "1.2.3"`, "the document has the version of the server")
	tag := got.Header().Get("ETag")
	require.Regexp(t, `^W/"[0-9a-f]{24}"$`, tag)

	for known, status := range map[string]int{
		tag: http.StatusNotModified, strings.TrimPrefix(tag, "W/"): http.StatusNotModified, "*": http.StatusNotModified,
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

// Commands, pages, the client and the guides do not use the routes that exist only for clients of Queen MQ.
func TestNothingOfBelfryNeedsTheRoutesOfQueenMQ(t *testing.T) {
	var text strings.Builder
	for _, place := range []string{"../cli", "../client", "../dashboard", "../../docs/concepts.md", "../../docs/operations.md", "../../docs/sql.md", "../../README.md"} {
		require.NoError(t, filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			text.Write(content)
			return err
		}))
	}
	s, _ := apitest.Server(&apitest.Fakes{})
	for _, route := range httpapi.QueenRoutes(s) {
		path := regexp.MustCompile(`:[a-zA-Z]+`).ReplaceAllString(route.Path, `[^\n]{1,40}`)
		require.Empty(t, regexp.MustCompile("[ \"`]"+path+"[\"`? ]").FindString(text.String()))
	}
}
