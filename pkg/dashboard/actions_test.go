package dashboard_test

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
)

// notice returns the text for the next page: + and the effect of an action, or - and the reason of a refusal.
func notice(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	for _, cookie := range w.Result().Cookies() {
		if text, err := base64.RawURLEncoding.DecodeString(cookie.Value); cookie.Name == "belfry_notice" && err == nil {
			return string(text)
		}
	}
	return ""
}

// field returns the value of a hidden field of a page.
func field(page, name string) string {
	_, after, _ := strings.Cut(page, `name="`+name+`" value="`)
	text, _, _ := strings.Cut(after, `"`)
	return html.UnescapeString(text)
}

// An edit makes only the changes of its preview, and keeps later changes of other options. It is refused if another person
// has changed one of the same options since.
func TestAnEditMakesOnlyTheChangesOfItsPreview(t *testing.T) {
	t.Parallel()
	options := map[string]any{"leaseTime": 60, "retryLimit": 5, "retentionEnabled": true, "ttl": 3600}
	var sent map[string]any
	s := startOn(t, apiFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/configure" {
			body, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(body, &sent)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"queue": map[string]any{"name": "a", "namespace": "n", "options": options}, "pagination": map[string]any{}})
	}))
	edit := func(query string) string {
		return field(s.send(t, http.MethodGet, "/ui/options?q=a&preview=1&"+query, "").Body.String(), "changes")
	}
	do := func(changes string, more ...string) string {
		sent = nil
		form := url.Values{"action": {"configure"}, "queue": {"a"}, "changes": {changes}}
		for _, name := range more {
			form.Set(name, "1")
		}
		return notice(t, s.send(t, http.MethodPost, "/ui/do", form.Encode()))
	}
	require.Empty(t, edit("leaseTime=60"), "nothing changes")
	changes := edit("leaseTime=90")
	options["retryLimit"] = 9
	require.Equal(t, "+The options of a are in force on all instances.", do(changes))
	require.Subset(t, sent["options"], map[string]any{"leaseTime": 90.0, "retryLimit": 9.0, "retentionEnabled": true, "ttl": 3600.0})
	require.Equal(t, []any{"a", "n", ""}, []any{sent["queue"], sent["namespace"], sent["task"]})
	whole := url.Values{"whole": {"1"}, "leaseTime": {"60"}, "retryLimit": {""}, "namespace": {"m"}}
	do(edit(whole.Encode()))
	require.Subset(t, sent["options"], map[string]any{"leaseTime": 60.0, "retentionEnabled": false, "ttl": 3600.0}, "an unticked box means false")
	require.NotContains(t, sent["options"], "retryLimit", "an empty field means the default")
	require.Equal(t, "m", sent["namespace"])

	options["leaseTime"] = 70
	require.Equal(t, `-Nothing was changed: leaseTime was changed to "70" meanwhile: check the changes again.`, do(changes))
	require.Equal(t, "-Nothing was changed: the queue a exists now: edit its options.", do(changes, "new"))
	require.Nil(t, sent)
	page := s.send(t, http.MethodGet, "/ui/options?q=a&preview=1&new=1&whole=1", "").Body.String()
	require.Contains(t, page, "There is a queue of this name")
	require.Empty(t, field(page, "changes"))
}

// The page after a push shows the result of the push. A form that is sent twice has the same transaction id.
func TestThePageShowsTheResultOfAPush(t *testing.T) {
	t.Parallel()
	var sent struct {
		Items []struct {
			TransactionID string
			Payload       json.RawMessage
		}
	}
	answer := ""
	s := startOn(t, apiFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"queue": {"name": "a"}, "pagination": {}}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &sent)
		_, _ = io.WriteString(w, answer)
	}))
	form := url.Values{"action": {"push"}, "queue": {"a"}, "payload": {`{"text": "<&>"}`}, "once": {field(s.send(t, http.MethodGet, "/ui/queue?q=a", "").Body.String(), "once")}}
	for status, want := range map[string]string{
		"queued":    "+The message is stored.",
		"duplicate": "+The message was already stored when this form was sent before.",
		"buffered":  "+The message waits in the spool of this instance: push maintenance is on.",
		"failed":    "-Nothing was stored: the queue is full.",
	} {
		answer = `[{"status": "` + status + `", "error": "the queue is full"}]`
		require.Equal(t, want, notice(t, s.send(t, http.MethodPost, "/ui/do", form.Encode())))
		require.Equal(t, form.Get("once"), sent.Items[0].TransactionID)
		require.JSONEq(t, form.Get("payload"), string(sent.Items[0].Payload))
		require.Contains(t, string(sent.Items[0].Payload), "<&>", "the dashboard sends the payload unchanged")
	}
	form.Set("transaction", "mine")
	answer = `[{"status": "duplicate"}]`
	require.Equal(t, "-Nothing was stored: the partition has a message with this transaction id.", notice(t, s.send(t, http.MethodPost, "/ui/do", form.Encode())))
	require.Equal(t, "mine", sent.Items[0].TransactionID)
}

// After a refused action, or after a form that is too large, the browser returns to the page of the form. Without a session,
// it goes to the sign-in page first.
func TestARefusedActionLeadsBack(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{"good": admin})
	w := s.send(t, http.MethodPost, "/ui/do", pauseOrders, func(r *http.Request) { r.Header.Set("Referer", "http://example.com/ui/queue?q=a%2Fb") })
	require.Equal(t, "sign-in?next=queue%3Fq%3Da%252Fb", w.Header().Get("Location"), "the server does not read a form without a session")
	require.Contains(t, notice(t, w), "-Nothing was changed: ")
	w = s.send(t, http.MethodPost, "/ui/do", "action=push&payload="+strings.Repeat("x", 2<<20), with("good"), func(r *http.Request) {
		r.Header.Set("Referer", "http://example.com/ops/ui/queue?q=a")
	})
	require.Equal(t, "queue?q=a", w.Header().Get("Location"))
	require.Equal(t, "-Nothing was changed: the form is larger than 1 MiB: use the API for large payloads.", notice(t, w))
	require.Zero(t, s.api.calls.Load())
}

// A script that sends a form gets the reason of a refusal as text. After a success it gets the next page in Location.
func TestAScriptThatSendsAFormStaysWhenItIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{"good": admin})
	byScript := func(r *http.Request) { r.Header.Set("X-Form", "1") }
	w := s.send(t, http.MethodPost, "/ui/do", "action=push&queue=a&payload=x&back=queue%3Fq%3Da", with("good"), byScript)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get("Location"))
	require.Equal(t, "Nothing was changed: the payload is not JSON.", w.Body.String())
	require.Empty(t, notice(t, w))
	w = s.send(t, http.MethodPost, "/ui/do", pauseOrders, with("good"), byScript)
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, "queue?q=a%2Fb", w.Header().Get("Location"))
	require.Contains(t, notice(t, w), "+The queue is paused")
	w = s.send(t, http.MethodPost, "/ui/do", pauseOrders, byScript)
	require.Regexp(t, `^Nothing was changed: .*\. Sign in in another tab, then send the form again\.$`, w.Body.String())
	require.Empty(t, w.Header().Get("Location"))
}

// The page shows a payload as it is stored. A value that is nested too deep does not hide later values.
func TestAPayloadIsShownAsItIsStored(t *testing.T) {
	t.Parallel()
	deep := `{"url": "https://a/?b=1&c=<2>", "deep": ` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `, "after": 9007199254740993}`
	s := startOn(t, answers{"/api/v1/messages/p/t": map[string]any{"payload": json.RawMessage(deep)}})
	page := html.UnescapeString(s.send(t, http.MethodGet, "/ui/message?partition=p&t=t", "").Body.String())
	require.Contains(t, page, `"https://a/?b=1&c=<2>"</bdi></span>`)
	require.Contains(t, page, `9007199254740993</span>`)
	require.Contains(t, page, "The payload has more values than are shown.")
}

// endless is a body that counts how much of it was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, strings.Repeat("a", len(p))), nil
}

// The server reads at most 64 KiB of a form without a valid session. The memory of all forms together is bounded.
func TestFormsAreReadAfterTheirCallerIsKnown(t *testing.T) {
	t.Parallel()
	auth := tokens{"admin": {Role: identity.Admin}}
	for path, most := range map[string]int{"/ui/do": 0, "/ui/redrive": 0, "/ui/sign-in": 64 << 10} {
		s := start(t, dashboard.DefaultConfig(), auth)
		body := &endless{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		s.ServeHTTP(httptest.NewRecorder(), r)
		require.LessOrEqual(t, body.read, most, path)
		require.Zero(t, s.api.calls.Load())
	}
	memory := inflight.NewBudget(1<<20, 1<<20)
	api := &api{}
	d, err := dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{API: api, Changes: &source.Changes{}, Log: zap.NewNop(), Memory: memory})
	require.NoError(t, err)
	defer d.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/do", strings.NewReader("action=push&queue=q&payload="+strings.Repeat("1", 900_000)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	require.Zero(t, api.calls.Load(), "the form exceeds the memory budget")
	require.Contains(t, notice(t, w), "http.max_inflight_bytes")
	require.Zero(t, memory.Used())
}
