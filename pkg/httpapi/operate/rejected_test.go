package operate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/test/apitest"
)

const (
	attachments = "/api/v1/attachments"
	rejected    = "/api/v1/inbox/rejected"
)

func TestAttachmentsAreListed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 8, 41, 27, 123456000, time.UTC)
	f := &apitest.Fakes{}
	f.Producers.Attachments = []attach.Attachment{
		{
			ID: 4, Table: "public.t", Queue: "q", Events: []string{"insert", "update"}, Key: []string{"id"}, Payload: "row", AttachedBy: "shop", AttachedAt: at,
			Triggers: 1, Failures: 2, LastFailedAt: at, LastFailure: "broken",
		},
		{ID: 9, Table: "public.u", Queue: "q", Events: []string{"insert"}, Key: []string{}, Condition: "true", Payload: "changes", Columns: []string{"a"}, Strict: true, AttachedBy: "shop", AttachedAt: at, Triggers: 1},
	}
	rec := apitest.Call(f, http.MethodGet, attachments+"?limit=2&cursor=3", "")
	require.JSONEq(t, `{"attachments":[
		{"table":"public.t","queue":"q","events":["insert","update"],"key":["id"],"condition":null,"headers":null,"payload":"row","columns":[],"strict":false,"attachedBy":"shop",
			"attachedAt":"2026-05-16T08:41:27.123Z","complete":false,"failures":2,"lastFailedAt":"2026-05-16T08:41:27.123Z","lastFailure":"broken"},
		{"table":"public.u","queue":"q","events":["insert"],"key":[],"condition":"true","headers":null,"payload":"changes","columns":["a"],"strict":true,"attachedBy":"shop",
			"attachedAt":"2026-05-16T08:41:27.123Z","complete":true,"failures":0,"lastFailedAt":null,"lastFailure":null}],
		"pagination":{"limit":2,"next":"9"}}`, rec.Body.String())
	require.Equal(t, []int64{3, 2}, []int64{f.Producers.After, f.Producers.Limit})
	require.JSONEq(t, `{"attachments":[],"pagination":{"limit":1000,"next":null}}`, apitest.Call(&apitest.Fakes{}, http.MethodGet, attachments+"?limit=5000", "").Body.String())
	require.Equal(t, `cursor is "-1": use pagination.next of the previous page`,
		apitest.RequireError(t, apitest.Call(f, http.MethodGet, attachments+"?cursor=-1", ""), http.StatusBadRequest))
}

func TestRejectedRowsAreListed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 8, 41, 27, 123456000, time.UTC)
	q, excerpt := "q", `{"a": 1`
	f := &apitest.Fakes{}
	f.Producers.List = inbox.RejectedList{
		Rows: []inbox.Rejection{{
			ID: 1<<53 + 1, Queue: &q, TraceID: apitest.IDOne, InsertedAt: at, RejectedAt: at, Code: "queue_full", Reason: "The queue is full", StoredBytes: 7, Excerpt: &excerpt,
		}},
		Examined: 10_000, Next: 5,
	}
	rec := apitest.Call(f, http.MethodGet, rejected+"?queue=q&code=queue_full&cursor=9", "")
	require.JSONEq(t, `{"rows":[{"id":"9007199254740993","queue":"q","partition":null,"transactionId":null,"traceId":"`+apitest.IDOne.String()+`","visibleAt":null,
		"insertedAt":"2026-05-16T08:41:27.123Z","rejectedAt":"2026-05-16T08:41:27.123Z","code":"queue_full","reason":"The queue is full","storedBytes":7,"excerpt":"{\"a\": 1"}],
		"examined":10000,"pagination":{"limit":100,"next":"5"}}`, rec.Body.String())
	require.Equal(t, "q queue_full", *f.Producers.Filter.Queue+" "+*f.Producers.Filter.Code)
	require.Equal(t, []int64{9, 100}, []int64{f.Producers.After, f.Producers.Limit})
	require.Equal(t, `code is "full": it must be invalid, too_large or queue_full`,
		apitest.RequireError(t, apitest.Call(f, http.MethodGet, rejected+"?code=full", ""), http.StatusBadRequest))
}

// A retry and a discard pass their selection to the inbox. A request without a selection or with an unknown field is refused.
func TestRejectedRowsAreRetriedAndDiscarded(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	f.Producers.More = true
	rec := apitest.Call(f, http.MethodPost, rejected+"/retry", `{"id":"9007199254740993","queue":"q","code":null,"all":false}`)
	require.JSONEq(t, `{"success":true,"retried":3,"more":true}`, rec.Body.String())
	require.Equal(t, int64(9007199254740993), f.Producers.Filter.ID)
	require.Equal(t, "q", *f.Producers.Filter.Queue)
	rec = apitest.Call(f, http.MethodPost, rejected+"/retry", `{"all":true}`)
	require.JSONEq(t, `{"success":true,"retried":3,"more":true}`, rec.Body.String())
	require.Equal(t, inbox.RejectedFilter{}, f.Producers.Filter)
	rec = apitest.Call(f, http.MethodDelete, rejected+"?code=invalid", "")
	require.JSONEq(t, `{"success":true,"discarded":3,"more":true}`, rec.Body.String())
	require.Equal(t, "invalid", *f.Producers.Filter.Code)
	require.Equal(t, []string{"retry", "retry", "discard"}, f.Producers.Verbs)

	const which = "the rejected rows are not selected: send id, queue or code, or all: true for every rejected row"
	for body, want := range map[string]string{
		``: "Empty request body", `{}`: which, `{"all":false}`: which,
		`{"id":5}`:                     "id is 5: id, queue and code must be strings, and all must be true or false",
		`{"id":"x"}`:                   `id is "x": use the id of a rejected row`,
		`{"id":"0"}`:                   `id is "0": use the id of a rejected row`,
		`{"queue":""}`:                 "queue is empty: send a value, or remove the field",
		`{"code":"full"}`:              `code is "full": it must be invalid, too_large or queue_full`,
		`{"all":true,"partition":"p"}`: `"partition" is unknown: use id, queue, code and all`,
		`{"queue":"` + strings.Repeat("x", 256) + `"}`: "queue is 256 bytes long: at most 255 are allowed",
	} {
		f := &apitest.Fakes{}
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, http.MethodPost, rejected+"/retry", body), http.StatusBadRequest), body)
		require.Empty(t, f.Producers.Verbs)
	}
	for query, want := range map[string]string{
		"": which, "all=false": which, "all=1": `all must be true or false, not "1"`, "queue=": "queue is empty: send a value, or remove the field",
		"all=true&partition=p": `"partition" is unknown: use id, queue, code and all`,
	} {
		f := &apitest.Fakes{}
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, http.MethodDelete, rejected+"?"+query, ""), http.StatusBadRequest), query)
		require.Empty(t, f.Producers.Verbs)
	}
}
