package dashboard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dashboard"
)

// apiFunc is an API that is implemented by a function.
type apiFunc func(w http.ResponseWriter, r *http.Request)

func (f apiFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) { f(w, r) }

// letterPages is an API with n dead letters of the given size in bytes. If broken is not 0, the request with that number
// fails with status.
func letterPages(n, bytes, broken, status int, asked *[]url.Values) apiFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		*asked = append(*asked, query)
		if len(*asked) == broken {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":"the database is away"}`)
			return
		}
		from, _ := strconv.Atoi(query.Get("cursor"))
		limit, _ := strconv.Atoi(query.Get("limit"))
		var next *string
		var messages []any
		for i := from; i < min(n, from+limit); i++ {
			messages = append(messages, map[string]any{"transactionId": strconv.Itoa(i), "data": json.Number("9007199254740993"), "text": strings.Repeat("x", bytes)})
		}
		if end := from + limit; end < n {
			text := strconv.Itoa(end)
			next = &text
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "pagination": map[string]any{"next": next}})
	}
}

// An export has each dead letter of the filter on one line, exactly as the API wrote it. This holds also if a page of dead
// letters is too large for one answer.
func TestAnExportHasAllDeadLetters(t *testing.T) {
	t.Parallel()
	for bytes, letters := range map[int]int{1: 600, 5_000_000: 14} { // first more than a page, then more bytes than an answer may have
		var asked []url.Values
		w := startOn(t, letterPages(letters, bytes, 0, 0, &asked)).send(t, http.MethodGet, "/ui/export?q=orders&g=billing&p=&e=no+%22paper%22", "")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "application/x-ndjson", w.Header().Get("Content-Type"))
		require.Equal(t, `attachment; filename="dead-letters.ndjson"`, w.Header().Get("Content-Disposition"))
		lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
		require.Len(t, lines, letters)
		for i, line := range lines {
			require.Contains(t, line, `"transactionId":"`+strconv.Itoa(i)+`"`)
			require.Contains(t, line, `"data":9007199254740993`, "no digit is lost")
		}
		require.Equal(t, []string{"orders", "billing", "", `no "paper"`},
			[]string{asked[0].Get("queue"), asked[0].Get("consumerGroup"), asked[0].Get("partition"), asked[0].Get("error")})
	}
}

// An export that fails at its first page returns the error. If it fails later, it aborts the connection. If the server is
// overloaded later, the export waits.
func TestAFailedExportIsIncomplete(t *testing.T) {
	t.Parallel()
	var asked []url.Values
	w := startOn(t, letterPages(2000, 1, 1, http.StatusServiceUnavailable, &asked)).send(t, http.MethodGet, "/ui/export", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "the database is away")
	asked = nil
	s := startOn(t, letterPages(2000, 1, 3, http.StatusInternalServerError, &asked))
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { s.send(t, http.MethodGet, "/ui/export", "") })
	asked = nil
	w = startOn(t, letterPages(2000, 1, 3, http.StatusServiceUnavailable, &asked)).send(t, http.MethodGet, "/ui/export", "")
	require.Equal(t, 2000, strings.Count(w.Body.String(), "\n"))
	s = start(t, dashboard.DefaultConfig(), tokens{"admin": admin})
	require.Equal(t, http.StatusSeeOther, s.send(t, http.MethodGet, "/ui/export", "").Code, "without a session")
	require.Zero(t, s.api.calls.Load())
}

// A redrive with progress passes on the events of the API. It needs a session, rights and a form of the same site.
func TestTheProgressOfARedriveIsPassedOn(t *testing.T) {
	t.Parallel()
	var path, body string
	s := startOn(t, apiFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		path, body = r.URL.Path, string(sent)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: closing\ndata: {}\n\n")
	}))
	const sent = "action=redrive&queue=q&group=g&partition=p&error=no&rate=5&as-of=x"
	w := s.send(t, http.MethodPost, "/ui/redrive", sent)
	require.Equal(t, "event: closing\ndata: {}\n\n", w.Body.String())
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, "/api/v1/dlq/redrive/stream", path)
	require.JSONEq(t, `{"queue":"q","consumerGroup":"g","partition":"p","error":"no","rate":5,"asOf":"x"}`, body)
	uncounted := s.send(t, http.MethodPost, "/ui/redrive", "action=redrive&queue=q&group=g")
	require.Equal(t, http.StatusBadRequest, uncounted.Code)
	require.Contains(t, uncounted.Body.String(), "count the dead letters first")
	require.Equal(t, http.StatusBadRequest, s.send(t, http.MethodPost, "/ui/redrive", "action=redrive&queue=q&group=g&rate=x").Code)

	foreign := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	require.Equal(t, http.StatusForbidden, s.send(t, http.MethodPost, "/ui/redrive", sent, foreign).Code)
	closed := start(t, dashboard.DefaultConfig(), tokens{"admin": admin})
	require.Equal(t, http.StatusUnauthorized, closed.send(t, http.MethodPost, "/ui/redrive", sent).Code)
	cfg := dashboard.DefaultConfig()
	cfg.ReadOnly = true
	readOnly := start(t, cfg, nil)
	require.Equal(t, http.StatusForbidden, readOnly.send(t, http.MethodPost, "/ui/redrive", sent).Code)
	require.Zero(t, closed.api.calls.Load()+readOnly.api.calls.Load())
}

// The actions on rejected rows send only the filter of the selected rows to the API.
func TestActionsOnRejectedRows(t *testing.T) {
	t.Parallel()
	var asked []string
	s := startOn(t, apiFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		_, _ = io.WriteString(w, `{"retried":2,"more":true}`)
	}))
	for _, sent := range []string{
		"action=retry-row&id=5&queue=q", "action=retry-rows&queue=&code=", "action=retry-rows&code=invalid", "action=discard-row&id=5&queue=q&code=",
		"action=discard-rows&queue=a%26b&confirm=wrong", "action=discard-rows&queue=a%26b&confirm=delete", "action=discard-rows&confirm=delete",
	} {
		require.Equal(t, http.StatusSeeOther, s.send(t, http.MethodPost, "/ui/do", sent).Code)
	}
	require.Equal(t, []string{
		`POST /api/v1/inbox/rejected/retry {"id":"5","queue":"q"}`, `POST /api/v1/inbox/rejected/retry {"all":true}`, `POST /api/v1/inbox/rejected/retry {"code":"invalid"}`,
		`DELETE /api/v1/inbox/rejected?id=5&queue=q `, `DELETE /api/v1/inbox/rejected?queue=a%26b `, `DELETE /api/v1/inbox/rejected?all=true `,
	}, asked)
}

// The filter by the time of the failure applies to the list of dead letters, its links, commands, export and actions.
func TestDeadLettersAreFilteredByTime(t *testing.T) {
	t.Parallel()
	var asked []url.Values
	var bodies []string
	s := startOn(t, apiFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		asked, bodies = append(asked, r.URL.Query()), append(bodies, string(sent))
		_, _ = io.WriteString(w, `{"matched":1,"shapes":[{"queue":"q","consumerGroup":"g","errorShape":"no","count":1}],"messages":[{"queue":"q","consumerGroup":"g","partition":"p"}],"pagination":{}}`)
	}))
	page := s.send(t, http.MethodGet, "/ui/dead?q=q&g=g&from=2026-05-16T08:00:00Z&to=2026-05-16T09:00:00Z", "").Body.String()
	const from, to = "2026-05-16T08:00:00Z", "2026-05-16T09:00:00Z"
	for _, part := range []string{
		`<input type="hidden" name="from" value="` + from + `"><input type="hidden" name="to" value="` + to + `">`,
		`href="dead?from=2026-05-16T08%3A00%3A00Z&amp;g=g&amp;q=q&amp;s=no&amp;to=2026-05-16T09%3A00%3A00Z"`,
		`belfry dlq list --queue q --group g --from ` + from + ` --to ` + to,
		`belfry dlq redrive q --group g --from ` + from + ` --to ` + to,
	} {
		require.Contains(t, page, part)
	}
	sent := url.Values{"queue": {"q"}, "group": {"g"}, "from": {from}, "to": {to}, "confirm": {"q"}, "as-of": {"x"}}
	s.send(t, http.MethodGet, "/ui/export?q=q&from="+from+"&to="+to, "")
	sent.Set("action", "purge")
	s.send(t, http.MethodPost, "/ui/do", sent.Encode())
	require.Len(t, asked, 3)
	for i, query := range asked {
		require.Equal(t, []string{from, to}, []string{query.Get("from"), query.Get("to")}, "request %d", i)
	}
	sent.Set("action", "redrive")
	s.send(t, http.MethodPost, "/ui/do", sent.Encode())
	require.JSONEq(t, `{"queue":"q","consumerGroup":"g","from":"`+from+`","to":"`+to+`","asOf":"x"}`, bodies[len(bodies)-1])
	s.send(t, http.MethodPost, "/ui/redrive", sent.Encode())
	require.JSONEq(t, `{"queue":"q","consumerGroup":"g","from":"`+from+`","to":"`+to+`","asOf":"x"}`, bodies[len(bodies)-1])
	before := len(asked)
	for query, wrong := range map[string]string{
		"from=soon": "The instant &#34;soon&#34; cannot be read", "from=" + to + "&to=" + from: "The end is before the beginning",
	} {
		require.Contains(t, s.send(t, http.MethodGet, "/ui/dead?"+query, "").Body.String(), wrong)
	}
	require.Len(t, asked, before)
}
