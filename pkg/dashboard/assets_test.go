package dashboard_test

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dashboard"
)

var (
	assetLink   = regexp.MustCompile(`(?:href|src)="(assets/[^"]+)"`)
	assetImport = regexp.MustCompile(`(?:from|import\(|new URL\() ?"(\./[^"]+)"`)
)

// A browser keeps each file of a page for a year, because another content has another path. That is true for the files
// which the scripts load too.
func TestTheFilesOfAPageNeverChange(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{})
	w := s.send(t, http.MethodGet, "/ui/sign-in", "")
	links := assetLink.FindAllStringSubmatch(w.Body.String(), -1)
	require.Len(t, links, 4, "icon, style sheet, script, icon")
	found := map[string]bool{}
	var follow func(from *url.URL, link string)
	follow = func(from *url.URL, link string) {
		to, err := from.Parse(link)
		require.NoError(t, err)
		if found[to.Path] {
			return
		}
		found[to.Path] = true
		w := s.send(t, http.MethodGet, to.Path, "")
		require.Equal(t, http.StatusOK, w.Code, to.Path)
		require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"), to.Path)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", "a worker has the policy of its file")
		for _, one := range assetImport.FindAllStringSubmatch(w.Body.String(), -1) {
			follow(to, one[1])
		}
	}
	for _, link := range links {
		follow(&url.URL{Path: "/ui/sign-in"}, link[1])
	}
	files, err := os.ReadDir("page/assets")
	require.NoError(t, err)
	require.Len(t, found, len(files), "a script is not found by its import: %v", found)
}

// During an upgrade, a page may ask an instance of another version for a file. The instance does not send its own file of this
// name. It sends only the script that loads the page again, and no cache keeps it.
func TestAnotherVersionHasNoFilesForAPage(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), nil)
	link := assetLink.FindStringSubmatch(s.send(t, http.MethodGet, "/ui/", "").Body.String())[1]
	edition := strings.Split(link, "/")[1]
	for _, name := range []string{"style.css", "start.js", "live.js", "worker.js", "icon.svg"} {
		require.Equal(t, http.StatusOK, s.send(t, http.MethodGet, "/ui/assets/"+edition+"/"+name, "").Code, name)
		for _, other := range []string{"/ui/assets/0123456789/" + name, "/ui/assets/" + name} {
			w := s.send(t, http.MethodGet, other, "")
			require.Equal(t, http.StatusNotFound, w.Code, other)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"), other)
		}
	}
	w := s.send(t, http.MethodGet, "/ui/assets/0123456789/app.js", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Contains(t, w.Body.String(), "location.reload()")
	require.NotRegexp(t, `(?m)^import `, w.Body.String(), "this script must run without the others")
}
