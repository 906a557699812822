package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stored is an API with 12 pages of messages. A message of the seventh page has the transaction id "late".
func stored(reads *[]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*reads = append(*reads, r.URL.RawQuery)
		page := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &page)
		list := make([]any, 0, 1000)
		for i := range 1000 {
			name := fmt.Sprint("m", page, "-", i)
			if page == 6 && i == 10 {
				name = "late"
			}
			list = append(list, map[string]any{"transactionId": name, "partitionId": "p", "queue": "orders", "partition": "a", "createdAt": time.Now()})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"messages": list, "pagination": map[string]any{"next": fmt.Sprint(page + 1)}})
	}
}

// A search by transaction id reads 5,000 messages. Then the page shows the number of searched messages and a link to
// continue.
func TestASearchIsBoundedAndContinues(t *testing.T) {
	t.Parallel()
	var reads []string
	s := startOn(t, stored(&reads))
	page := s.send(t, http.MethodGet, "/ui/messages?q=orders&t=late", "").Body.String()
	require.Len(t, reads, 5)
	require.Contains(t, page, "5\u202f000 messages searched")
	require.NotContains(t, page, `<th scope="row">`)
	_, link, found := strings.Cut(page, `href="messages?after=5`)
	require.True(t, found)
	link, _, _ = strings.Cut(link, `"`)
	page = s.send(t, http.MethodGet, "/ui/messages?after=5"+strings.ReplaceAll(link, "&amp;", "&"), "").Body.String()
	require.Len(t, reads, 7, "the search stops at the page with the message")
	require.Contains(t, page, `<code><bdi>late</bdi></code>`)
}

// messageOf is an API with one message.
func messageOf(payload string) answers {
	return answers{
		"/api/v1/messages/p/t": map[string]any{
			"transactionId": "t", "partitionId": "p", "queue": "orders", "partition": "a", "status": "dead_letter", "createdAt": time.Now(),
			"payload": json.RawMessage(payload), "consumerGroups": []any{map[string]any{"name": "billing"}, map[string]any{"name": "audit", "consumed": true}},
		},
		"/api/v1/dlq": map[string]any{"messages": []any{
			map[string]any{"consumerGroup": "billing", "errorMessage": "no <paper>", "retryCount": 2, "failedAt": time.Now()},
		}, "pagination": map[string]any{}},
		"/api/v1/explain": map[string]any{"code": "resting", "sentence": "It rests."},
	}
}

// The page shows a payload exactly as it is stored, and escapes its HTML.
func TestAPayloadIsShownExactly(t *testing.T) {
	t.Parallel()
	s := startOn(t, messageOf(`{"id":9007199254740993,"price":1.10,"big":1e400,"<i>":"<script>","id":[],"deep":[{"a":null}]}`))
	page := s.send(t, http.MethodGet, "/ui/message?partition=p&t=t", "").Body.String()
	for _, part := range []string{`"number">9007199254740993<`, `"number">1.10<`, `"number">1e400<`, `&lt;i&gt;`, `&#34;price&#34;:1.10`, "after 3 attempts: no &lt;paper&gt;"} {
		require.Contains(t, page, part)
	}
	require.NotContains(t, page, "<i>")
	require.Equal(t, 1, strings.Count(page, `value="retry-message"`), "only the group with the dead letter has the button")
}

// The timeline of a message shows the steps of each group: first the steps with an instant, then the counts without an
// instant, then the next step. It does not show changes of other messages.
func TestTheTimelineOfAMessage(t *testing.T) {
	t.Parallel()
	api := messageOf(`1`)
	at := func(seconds int) time.Time { return time.Now().Add(time.Duration(seconds) * time.Second) }
	change := func(action, transaction string) map[string]any {
		return map[string]any{"at": at(10), "action": action, "transactionId": transaction, "partition": "a", "consumerGroup": "audit", "subject": "ann", "result": "ok"}
	}
	api["/api/v1/audit"] = map[string]any{"entries": []any{change("message.retry", "t"), change("message.retry", "u"), change("queue.configure", "t")}}
	api["/api/v1/explain"] = map[string]any{"code": "leased", "sentence": "x", "attempts": map[string]any{
		"deliveries": 3, "failures": 2, "leasedUntil": at(60), "redrivenAt": at(20),
	}}
	text := func() string {
		body := startOn(t, api).send(t, http.MethodGet, "/ui/message?partition=p&t=t", "").Body.String()
		_, steps, _ := strings.Cut(body, `<ol class="steps">`)
		steps, _, _ = strings.Cut(steps, "</ol>")
		return regexp.MustCompile(`\s+`).ReplaceAllString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(steps, " "), " ")
	}
	steps := text()
	last := 0
	for _, part := range []string{
		"Stored", "Dead letter in billing", "Retried by an operator in audit", "by ann", "Redriven in billing", "Redriven in audit",
		"Delivered 3 times in billing the instant is not stored 2 of them failed.", "Delivered 3 times in audit",
		"The lease ends, unless an ack ends it before in billing",
	} {
		i := strings.Index(steps[last:], part)
		require.GreaterOrEqual(t, i, 0, "%q after %q", part, steps[:last])
		last += i
	}
	require.Equal(t, 1, strings.Count(steps, "Retried"))
	api["/api/v1/explain"] = map[string]any{"code": "acknowledged", "sentence": "x", "consumedAt": "2026-05-16T08:41:12.123Z"}
	require.Contains(t, text(), "Acknowledged in audit the instant is not stored Or a seek passed the message. The group last consumed a message of this partition at 2026-05-16 08:41:12 UTC.")
}

// The page of a message has less than 300 KB, for any size and nesting of the payload.
func TestThePageOfALargeMessageIsSmall(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]string{
		"long list": "[" + strings.Repeat(`{"name": "bell", "price": 12},`, 40_000) + "1]", "deep": strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"quotes": "[" + strings.Repeat(`"",`, 40_000) + "1]",
	} {
		w := startOn(t, messageOf(payload)).send(t, http.MethodGet, "/ui/message?partition=p&t=t", "")
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Less(t, w.Body.Len(), 300_000, name)
		require.Equal(t, strings.Count(w.Body.String(), "<details"), strings.Count(w.Body.String(), "</details>"), name)
		require.Contains(t, w.Body.String(), "The payload has more values than are shown", name)
	}
}

// The page shows the findings of the doctor, the worst first.
func TestTheFindingsOfTheDoctor(t *testing.T) {
	t.Parallel()
	check := func(code, result string) map[string]any {
		return map[string]any{"code": code, "result": result, "found": code + " was found", "why": "it matters", "do": []string{"VACUUM " + code}, "runbook": "docs/runbook.md#" + code}
	}
	s := startOn(t, answers{"/api/v1/doctor": map[string]any{"wrong": 1, "warnings": 1, "checks": []any{check("fine", "ok"), check("aged", "warning"), check("broken", "wrong")}}})
	page := s.send(t, http.MethodGet, "/ui/system", "").Body.String()
	require.Less(t, strings.Index(page, "broken was found"), strings.Index(page, "aged was found"))
	require.Contains(t, page, "1 thing is wrong")
	require.Contains(t, page, "VACUUM aged")
	require.NotContains(t, page, "VACUUM fine")
	require.NotContains(t, page, `data-live="`, "an open page does not run the doctor again")
}
