package dashboard_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The URL of the pages history and queue has the time range of the charts. The page links to earlier, later, shorter and
// longer ranges.
func TestTheURLHasTheTimeRangeOfTheCharts(t *testing.T) {
	t.Parallel()
	var asked []string
	lists := []string{"queue-lag", "consumer-groups"}
	s := startOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"pagination": {}}`
		for _, list := range lists {
			if strings.HasSuffix(r.URL.Path, list) {
				answer = `[]`
			}
		}
		if strings.HasPrefix(r.URL.Path, "/api/v1/analytics/") {
			asked = append(asked, r.URL.Query().Get("from")+" "+r.URL.Query().Get("to"))
		}
		_, _ = w.Write([]byte(answer))
	}))
	get := func(path string) (body string, links map[string]string) {
		asked = nil
		w := s.send(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		links = map[string]string{}
		for _, found := range regexp.MustCompile(`<a href="([^"]+)">(Earlier|Later|Zoom in|Zoom out|Reset)</a>`).FindAllStringSubmatch(w.Body.String(), -1) {
			links[found[2]] = strings.NewReplacer("&amp;", "&", "%3A", ":").Replace(found[1])
		}
		return w.Body.String(), links
	}
	for _, page := range []string{"history", "queue"} {
		body, links := get("/ui/" + page + "?q=a&from=2026-05-16T08:00:20Z&to=2026-05-16T08:59:40Z")
		for _, one := range asked {
			require.Equal(t, "2026-05-16T08:00:00Z 2026-05-16T09:00:00Z", one)
		}
		require.NotEmpty(t, asked)
		require.Contains(t, body, `data-from="1778918400" data-to="1778921940"`)
		require.Equal(t, map[string]string{
			"Earlier":  page + "?from=2026-05-16T07:30:00Z&q=a&to=2026-05-16T08:30:00Z",
			"Later":    page + "?from=2026-05-16T08:30:00Z&q=a&to=2026-05-16T09:30:00Z",
			"Zoom in":  page + "?from=2026-05-16T08:15:00Z&q=a&to=2026-05-16T08:45:00Z",
			"Zoom out": page + "?from=2026-05-16T07:30:00Z&q=a&to=2026-05-16T09:30:00Z",
			"Reset":    page + "?q=a",
		}, links)
		require.Contains(t, body, `data-zoom="`+page+`?q=a"`)

		_, links = get("/ui/" + page + "?q=a&from=2026-05-16T08:00:00Z&to=2026-05-16T08:01:00Z")
		require.Equal(t, "2026-05-16T07:56:00Z 2026-05-16T08:01:00Z", asked[0], "the shortest range is five minutes")
		require.NotContains(t, links, "Zoom in")
		_, links = get("/ui/" + page + "?q=a&from=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + "&to=2126-01-01T00:00:00Z")
		require.NotContains(t, links, "Later")
		for _, wrong := range []string{"", "&from=x&to=y", "&from=2026-05-16T09:00:00Z&to=2026-05-16T08:00:00Z", "&from=2126-05-16T09:00:00Z&to=2127-05-16T08:00:00Z"} {
			_, links = get("/ui/" + page + "?q=a" + wrong)
			require.NotContains(t, links, "Reset", wrong)
			for _, one := range asked { // a later answer is that of the first
				require.True(t, strings.HasSuffix(one, " "), "until now")
			}
		}
	}
	_, links := get("/ui/history?span=6h&from=2026-05-16T08:00:00Z&to=2026-05-16T09:00:00Z")
	require.NotContains(t, links, "Reset", "a span that ends now replaces from and to")
	require.NotContains(t, links["Earlier"], "span")
}
