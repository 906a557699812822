package dashboard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// rightsAPI answers the routes of rights, and keeps the path and the body of the latest request.
type rightsAPI struct {
	path string
	body map[string]any
}

func (a *rightsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.path, a.body = r.URL.Path, map[string]any{}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &a.body)
	switch {
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `{"canCreateTokens":true,"pushIsChecked":true,"grants":[{"kind":"push","role":"shop","queue":"<b>","grantedAt":"2026-01-01T00:00:00.000Z"}],`+
			`"revokedTokens":[{"id":"id-1","revokedBy":"belfry","revokedAt":"2026-01-01T00:00:00.000Z"}]}`)
	case a.path == "/api/v1/tokens":
		_, _ = io.WriteString(w, `{"token":"a.b.c","id":"id-2","expiresAt":"2026-01-01T00:00:00.000Z"}`)
	default:
		_, _ = io.WriteString(w, `{}`)
	}
}

// An administrator creates and revokes tokens, and changes grants, on the page Access. A new token is in the answer, and in no
// cookie. A person with another role sees no form.
func TestThePageAccess(t *testing.T) {
	t.Parallel()
	api := &rightsAPI{}
	d, err := dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{
		API: api, Auth: tokens{"good": admin, "read": reader}, Changes: &source.Changes{}, Version: "v1", Log: zaptest.NewLogger(t),
	})
	require.NoError(t, err)
	s := setup{Dashboard: d}
	shown := s.send(t, http.MethodGet, "/ui/access", "", with("good")).Body.String()
	for _, part := range []string{"id-1", "&lt;b&gt;", `value="revoke-grant"`, `action="token"`, "Pushes in SQL need a grant"} {
		require.Contains(t, shown, part)
	}
	require.NotContains(t, s.send(t, http.MethodGet, "/ui/access", "", with("read")).Body.String(), `action="token"`)
	require.NotContains(t, s.send(t, http.MethodGet, "/ui/streams", "", with("read")).Body.String(), `href="access"`)

	send := func(path string, fields url.Values) *httptest.ResponseRecorder {
		return s.send(t, http.MethodPost, path, fields.Encode(), with("good"))
	}
	w := send("/ui/token", url.Values{"subject": {" shop "}, "role": {"read-write"}, "hours": {"2"}, "push": {"orders.*\r\n\r\nmails\r\n"}})
	require.Contains(t, w.Body.String(), "a.b.c")
	require.Empty(t, w.Result().Cookies())
	require.Equal(t, map[string]any{"subject": "shop", "role": "read-write", "ttlSeconds": 7200.0, "grants": map[string]any{"push": []any{"orders.*", "mails"}}}, api.body)
	require.Contains(t, notice(t, send("/ui/token", url.Values{"hours": {"x"}})), "whole number of hours")

	for _, c := range []struct {
		fields url.Values
		path   string
		body   map[string]any
	}{
		{url.Values{"action": {"revoke-token"}, "token": {" id-1 "}}, "/api/v1/tokens/revoke", map[string]any{"id": "id-1"}},
		{url.Values{"action": {"revoke-token"}, "token": {"a.b.c"}}, "/api/v1/tokens/revoke", map[string]any{"token": "a.b.c"}},
		{url.Values{"action": {"give-grant"}, "kind": {"consume"}, "role": {"r"}, "queue": {"q"}, "group": {"g"}}, "/api/v1/sql-grants", map[string]any{"kind": "consume", "role": "r", "queue": "q", "consumerGroup": "g"}},
		{url.Values{"action": {"revoke-grant"}, "kind": {"push"}, "role": {"r"}, "queue": {"q"}}, "/api/v1/sql-grants/revoke", map[string]any{"kind": "push", "role": "r", "queue": "q"}},
	} {
		require.Equal(t, http.StatusSeeOther, send("/ui/do", c.fields).Code)
		require.Equal(t, c.path, api.path)
		require.Equal(t, c.body, api.body)
	}
}
