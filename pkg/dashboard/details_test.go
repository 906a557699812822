package dashboard_test

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// until accepts each token before EndsAt of its principal, and before a revocation.
type until struct {
	*identity.Principal
	revocation chan struct{}
}

func (u until) NextRevocation() <-chan struct{} { return u.revocation }

func (u until) Verify(ctx context.Context, token string) (*identity.Principal, error) {
	select {
	case <-u.revocation:
	default:
		if time.Now().Before(u.EndsAt) {
			return u.Principal, nil
		}
	}
	return tokens{}.Verify(ctx, token)
}

// The stream of a page ends when the verifier refuses the token. It refuses the token after a revocation, and after EndsAt
// of the principal, which may be later than ExpiresAt in the token.
func TestASessionEndsWhenItsTokenIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, revoked := range []time.Duration{0, 20 * time.Second} {
			ends := time.Now().Add(10 * time.Second)
			auth := until{&identity.Principal{Role: identity.Admin, ExpiresAt: ends, EndsAt: ends.Add(30 * time.Second)}, make(chan struct{})}
			refused := auth.EndsAt
			if revoked > 0 {
				refused = time.Now().Add(revoked)
				time.AfterFunc(revoked, func() { close(auth.revocation) })
			}
			d, err := dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{API: &api{}, Auth: auth, Changes: &source.Changes{}, Log: zap.NewNop()})
			require.NoError(t, err)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/live", http.NoBody)
			with("some")(r)
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			require.Contains(t, w.Body.String(), "event: ended")
			require.Equal(t, refused, time.Now())
			d.Close()
		}
	})
}

// The field "Stored before" bounds the list of messages. The link for all ages keeps this bound.
func TestMessagesStoredBeforeAnInstant(t *testing.T) {
	t.Parallel()
	var asked *http.Request
	s := startOn(t, apiFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/messages" {
			asked = r
		}
		_, _ = io.WriteString(w, `{"pagination": {}}`)
	}))
	page := html.UnescapeString(s.send(t, http.MethodGet, "/ui/messages?q=a&since=1h&until=2026-05-16T10:41:27%2B02:00", "").Body.String())
	require.Equal(t, "2026-05-16T08:41:27Z", asked.URL.Query().Get("to"))
	require.Equal(t, "2026-05-16T07:41:00Z", asked.URL.Query().Get("from"))
	require.Contains(t, page, "messages?q=a&since=all&until=2026-05-16T10%3A41%3A27%2B02%3A00", "all ages")
	asked = nil
	require.Contains(t, s.send(t, http.MethodGet, "/ui/messages?until=yesterday", "").Body.String(), "The instant cannot be read")
	require.Nil(t, asked)
}

// Pages with many large traces have less than 300 KiB.
func TestPagesWithLargeTracesAreSmall(t *testing.T) {
	t.Parallel()
	traces := make([]any, 50)
	for i := range traces {
		traces[i] = map[string]any{"event_type": "parcel sent", "data": json.RawMessage("[" + strings.Repeat(`"<&>",`, 3_000) + "0]"), "created_at": time.Now()}
	}
	found := map[string]any{"traces": traces, "total": len(traces), "pagination": map[string]any{}}
	s := startOn(t, answers{"/api/v1/traces/by-name/n": found, "/api/v1/traces/p/t": found, "/api/v1/messages/p/t": map[string]any{"payload": 1}})
	for _, path := range []string{"/ui/traces?name=n", "/ui/message?partition=p&t=t"} {
		page := s.send(t, http.MethodGet, path, "").Body
		require.Less(t, page.Len(), 300<<10, path)
		require.Equal(t, len(traces), strings.Count(page.String(), "parcel sent"), path)
	}
}

// A page shows only the actions that the grants of the token allow.
func TestGrantsHideActions(t *testing.T) {
	t.Parallel()
	const pushes, deletes, pauses = `value="push"`, `value="delete-queue"`, `value="pause-queue"`
	all := []string{pushes, deletes, pauses}
	for name, of := range map[string]struct {
		role    identity.Role
		grants  *identity.Grants
		offered []string
	}{
		"no grants":           {identity.Admin, nil, all},
		"writer":              {identity.ReadWrite, nil, []string{pushes, pauses}},
		"reader":              {identity.ReadOnly, nil, nil},
		"pushes":              {identity.Admin, &identity.Grants{Push: []string{"a"}, Read: []string{"a"}}, []string{pushes}},
		"administers":         {identity.Admin, &identity.Grants{Admin: []string{"a"}}, all},
		"administers another": {identity.Admin, &identity.Grants{Admin: []string{"b"}, Read: []string{"a"}}, nil},
	} {
		s := startAs(t, answers{"/api/v1/status/queues/a": map[string]any{"queue": map[string]any{"name": "a"}, "pagination": map[string]any{}}},
			tokens{"t": {Role: of.role, Grants: of.grants}})
		page := s.send(t, http.MethodGet, "/ui/queue?q=a", "", with("t")).Body.String()
		var offered []string
		for _, action := range all {
			if strings.Contains(page, action) {
				offered = append(offered, action)
			}
		}
		require.Equal(t, of.offered, offered, name)
	}
}

// The dashboard keeps the white space of a name. A browser sends a line end in a form as CRLF, and the dashboard turns it
// into LF.
func TestNamesKeepTheirWhiteSpace(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), nil)
	s.send(t, http.MethodGet, "/ui/options?q=+a%0D%0Ab+", "")
	require.Equal(t, "/api/v1/status/queues/%20a%0Ab%20", s.api.path.Load())
	s.send(t, http.MethodPost, "/ui/do", "action=delete-queue&queue=+a%0D%0Ab+&confirm=+a%0D%0Ab+")
	require.Equal(t, "/api/v1/resources/queues/%20a%0Ab%20", s.api.path.Load())
}

// An address without a page gets a 404 page, with and without a session. The links of this page work at every depth of the
// address.
func TestAnAddressWithoutAPageIsNotFound(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	for _, s := range []setup{start(t, dashboard.DefaultConfig(), nil), start(t, dashboard.DefaultConfig(), tokens{})} {
		for _, path := range []string{
			"nothing", "do", "queue/", "queue/x", "queue/x/y", "queue%2Fx", "sign-in/", "a/sign-in", "live/x", "assets/", "assets/nothing", "assets/style.css", "assets/x/style.css/", "index.html",
		} {
			w := s.send(t, http.MethodGet, "/ui/"+path, "")
			require.Equal(t, http.StatusNotFound, w.Code, path)
			require.Contains(t, w.Body.String(), "<h1>No such page</h1>", path)
			require.NotContains(t, w.Body.String(), "<h1>Overview</h1>", path)
			require.Empty(t, w.Header().Values("Set-Cookie"), path)
			from, err := url.Parse("/ui/" + path)
			require.NoError(t, err)
			back := false
			for _, link := range links.FindAllStringSubmatch(w.Body.String(), -1) {
				to, err := from.Parse(link[1])
				require.NoError(t, err)
				back = back || to.Path == "/ui/"
				if strings.HasPrefix(to.Path, "/ui/assets/") {
					require.Equal(t, http.StatusOK, s.send(t, http.MethodGet, to.Path, "").Code, "%s of %s", to, path)
				} else {
					require.Contains(t, []string{"/ui/", "/openapi.json"}, to.Path, path)
				}
			}
			require.True(t, back, path)
		}
	}
}
