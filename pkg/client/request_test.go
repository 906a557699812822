package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// connect returns a client of b.
func connect(t *testing.T, b http.RoundTripper, options ...func(*client.Config)) *client.Client {
	t.Helper()
	config := client.Config{URLs: []string{"http://a:1"}, HTTPClient: &http.Client{Transport: b}}
	for _, option := range options {
		option(&config)
	}
	c, err := client.New(config)
	require.NoError(t, err)
	return c
}

// answering returns a broker that answers the first requests with answers, in order. Later requests get the broker's own answers.
func answering(answers ...func(r *http.Request) (int, http.Header, string)) *broker {
	b := newBroker()
	b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(answers) == 0 {
			return 0, nil, ""
		}
		next := answers[0]
		answers = answers[1:]
		return next(r)
	}
	return b
}

func status(code int, header ...string) func(*http.Request) (int, http.Header, string) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return func(*http.Request) (int, http.Header, string) { return code, h, `{"error":"the text"}` }
}

func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]error{
		400: client.ErrInvalid, 401: client.ErrUnauthorized, 403: client.ErrForbidden, 404: client.ErrNotFound,
		409: client.ErrConflict, 413: client.ErrTooLarge, 429: client.ErrQueueFull, 500: client.ErrServer, 503: client.ErrUnavailable,
	} {
		b := answering(status(code, "Retry-After", "7", "X-Request-Id", "r1"))
		c := connect(t, b, func(o *client.Config) { o.RetryFor = -1 })
		err := c.Do(t.Context(), client.Request{Path: "/api/v1/whoami"}, nil)
		require.ErrorIs(t, err, want)
		var failure *client.Error
		require.ErrorAs(t, err, &failure)
		require.Equal(t, code, failure.Status)
		require.Equal(t, "the text", failure.Message)
		require.Equal(t, 7*time.Second, failure.RetryAfter)
		require.Equal(t, "r1", failure.RequestID)
	}
}

func TestRequestsWaitForRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := answering(status(503, "Retry-After", "7"), status(429, "Retry-After", "3"), status(lostAnswer))
		began := time.Now()
		stored, err := connect(t, b).Push(t.Context(), client.Item{Queue: "orders", Payload: 1})
		require.NoError(t, err)
		require.Equal(t, client.Queued, stored.Status)
		require.Equal(t, 4, b.count("POST /api/v1/push"))
		require.InDelta(t, 10, time.Since(began).Seconds(), 1)
	})
}

func TestRepetitionEndsAfterRetryForOrWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		b.intercept = func(*http.Request, []byte) (int, http.Header, string) { return 503, nil, "" }
		began := time.Now()
		_, err := connect(t, b).Push(t.Context(), client.Item{Queue: "orders"})
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.InDelta(t, 30, time.Since(began).Seconds(), 8)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = connect(t, b).Push(ctx, client.Item{Queue: "orders"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A repeated push has the transaction ids of the first attempt, so the server stores no message twice.
func TestRepeatedPushKeepsItsTransactionIDs(t *testing.T) {
	t.Parallel()
	b, lost := newBroker(), false
	b.intercept = func(_ *http.Request, body []byte) (int, http.Header, string) {
		if lost {
			return 0, nil, ""
		}
		lost = true
		b.push(discard{}, body)
		return lostAnswer, nil, ""
	}
	stored, err := connect(t, b).PushMany(t.Context(), []client.Item{{Queue: "orders", Payload: 1}, {Queue: "orders", Payload: 2}})
	require.NoError(t, err)
	require.Len(t, b.partitions[0].messages, 2)
	for _, s := range stored {
		require.Equal(t, client.Duplicate, s.Status)
		id, err := uuid.Parse(s.TransactionID)
		require.NoError(t, err)
		require.EqualValues(t, 7, id.Version())
	}
}

type discard struct{ http.ResponseWriter }

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// If the answer of a POST was lost, Do does not repeat the POST, because a repetition could have a second effect.
func TestDoRepeatsOnlyRepeatableRequests(t *testing.T) {
	t.Parallel()
	b := answering(status(lostAnswer))
	err := connect(t, b).Do(t.Context(), client.Request{Method: http.MethodPost, Path: "/api/v1/push", Body: map[string]any{}}, nil)
	require.ErrorIs(t, err, client.ErrUnavailable)
	require.Equal(t, 1, b.count("POST"))

	b = answering(status(lostAnswer), status(200))
	var answer struct {
		Error string `json:"error"`
	}
	require.NoError(t, connect(t, b).Do(t.Context(), client.Request{Path: "/x"}, &answer))
	require.Equal(t, "the text", answer.Error)
	require.Equal(t, 2, b.count("GET"))
}

func TestTheNextServerIsTriedAtOnceAndKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		b := newBroker()
		b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
			asked = append(asked, r.URL.Host)
			if r.URL.Host == "a:1" {
				return 503, http.Header{"Retry-After": {"5"}}, ""
			}
			return 0, nil, ""
		}
		c := connect(t, b, func(o *client.Config) { o.URLs = []string{"http://a:1", "http://b:1"} })
		began := time.Now()
		for range 2 {
			_, err := c.Push(t.Context(), client.Item{Queue: "orders"})
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, []string{"a:1", "b:1", "b:1"}, asked)
	})
}

// The client fetches a new token before the old one expires and after an answer 401. Otherwise it keeps the token.
func TestTokensAreRefreshed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fetched, valid := 0, ""
		b := newBroker()
		b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
			if r.Header.Get("Authorization") != "Bearer "+valid {
				return 401, nil, `{"error":"Token has expired"}`
			}
			return 0, nil, ""
		}
		c := connect(t, b, func(o *client.Config) {
			o.Token = func(context.Context) (string, time.Time, error) {
				fetched++
				valid = strings.Repeat("x", fetched)
				return valid, time.Now().Add(time.Minute), nil
			}
		})
		push := func() {
			_, err := c.Push(t.Context(), client.Item{Queue: "orders"})
			require.NoError(t, err)
		}
		push()
		push()
		require.Equal(t, 1, fetched)
		time.Sleep(55 * time.Second)
		push()
		require.Equal(t, 2, fetched, "a token that expires soon is replaced")
		valid = "xxx"
		push()
		require.Equal(t, 3, fetched, "a refused token is replaced")
		b.intercept = func(*http.Request, []byte) (int, http.Header, string) { return 401, nil, "" }
		_, err := c.Push(t.Context(), client.Item{Queue: "orders"})
		require.ErrorIs(t, err, client.ErrUnauthorized)
	})
}

func TestPayloadsAndTraceIDsArriveAsSent(t *testing.T) {
	t.Parallel()
	b := newBroker()
	c := connect(t, b)
	trace, err := client.TraceID("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	require.NoError(t, err)
	require.Equal(t, "4bf92f35-77b3-4da6-a3ce-929d0e0e4736", trace)
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", client.W3CTraceID(trace))
	ctx := client.WithTraceID(t.Context(), trace)
	raw := json.RawMessage(`{"b":1,"a":"<\u00e9\ud800>","a":1.50e1}`)
	_, err = c.PushMany(ctx, []client.Item{{Queue: "orders", Payload: raw}, {Queue: "orders", Payload: "<&>"}})
	require.NoError(t, err)
	got, err := c.Pop(t.Context(), client.PopOptions{Queue: "orders", Batch: 2})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, trace, got[0].TraceID)
	require.Equal(t, `"<&>"`, string(b.partitions[0].messages[1].Payload))
	require.Equal(t, string(raw), string(b.partitions[0].messages[0].Payload))
	require.Equal(t, "orders", got[0].Queue)
	require.Equal(t, 123456000, got[0].CreatedAt.Nanosecond())
}

func TestInvalidTraceparentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"", "00", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473x-00f067aa0ba902b7-01", "zz-4bf92f3577b34da6a3ce929d0e0e4736-xxxxxxxxxxxxxxxx-zz",
		"zz-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bx-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
	} {
		_, err := client.TraceID(header)
		require.Error(t, err, header)
	}
	_, err := client.TraceID("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more") // later versions may have more
	require.NoError(t, err)
}

// The client tries each server once, even if RetryFor is negative. A request with a new token is no attempt at another server.
func TestEachServerIsTriedOnceWithoutRepetition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		b := newBroker()
		b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
			asked = append(asked, r.URL.Host)
			if len(asked) == 1 {
				return 401, nil, ""
			}
			return 503, nil, ""
		}
		c := connect(t, b, func(o *client.Config) {
			o.URLs, o.RetryFor, o.Token = []string{"http://a:1", "http://b:1", "http://c:1"}, -1, client.StaticToken("x")
		})
		_, err := c.Push(t.Context(), client.Item{Queue: "orders"})
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.Equal(t, []string{"a:1", "a:1", "b:1", "c:1"}, asked)
		asked = nil
		b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
			asked = append(asked, r.URL.Host)
			return 429, nil, ""
		}
		_, err = c.Push(t.Context(), client.Item{Queue: "orders"})
		require.ErrorIs(t, err, client.ErrQueueFull)
		require.Len(t, asked, 1, "a full queue is full at all servers, so no other server is asked")
	})
}

// The client sends the user and the password of a URL to the server. Errors and logs do not show them.
func TestPasswordsOfURLsAreNotPrinted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newBroker()
	b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
		user, password, _ := r.BasicAuth()
		if user != "anna" || password != "secret" {
			return 403, nil, "secret"
		}
		return 503, nil, ""
	}
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, b, func(o *client.Config) {
			o.URLs, o.Log = []string{"http://anna:secret@a:1/x"}, slog.New(slog.NewTextHandler(&log, nil))
		})
		_, err := c.Push(t.Context(), client.Item{Queue: "orders"})
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.ErrorContains(t, err, "http://a:1/x/api/v1/push")
		for _, printed := range []string{err.Error(), fmt.Sprintf("%+v", err), log.String()} {
			require.NotContains(t, printed, "secret")
			require.NotContains(t, printed, "anna")
		}
		require.NotEmpty(t, log.String())
		err = c.Do(t.Context(), client.Request{Path: "/%zz"}, nil)
		require.ErrorContains(t, err, "%zz")
		require.NotContains(t, err.Error(), "secret")
		for _, err := range c.Events(t.Context()) {
			require.NotContains(t, err.Error(), "secret")
			break
		}
	})
	for _, bad := range []string{
		"ftp://anna:secret@a", "http://anna:secret@a?x", "http:anna:secret@a", "http://anna:secret@a:x", "http://anna:se/cret@a", "http://anna:se%zzcret@a",
		"http://anna:secret word@a", "anna:secret@a",
	} {
		_, err := client.New(client.Config{URLs: []string{bad}})
		require.Error(t, err)
		for _, secret := range []string{"secret", "anna", "se/", "zz"} {
			require.NotContains(t, err.Error(), secret)
		}
	}
	_, err := client.New(client.Config{URLs: []string{"http://a:x"}})
	require.ErrorContains(t, err, "http://a:x")
}

func TestTransactionsAreAppliedOrRefused(t *testing.T) {
	t.Parallel()
	b := newBroker()
	c := connect(t, b)
	fill(t, c, "p", 2)
	got, err := c.Pop(t.Context(), client.PopOptions{Queue: "orders", Batch: 2})
	require.NoError(t, err)
	commit := client.Transaction{
		Acks: []client.Ack{got[1].Ack(client.Completed, nil)}, Pushes: []client.Item{{Queue: "invoices", Partition: "other", Payload: 1}},
	}
	require.NoError(t, c.Transact(t.Context(), commit))
	require.Equal(t, []string{"p-1 completed"}, b.acked())
	require.Len(t, b.partitions[1].messages, 1)
	err = c.Transact(t.Context(), commit)
	require.ErrorIs(t, err, client.ErrRefused)
	require.ErrorContains(t, err, "Invalid or expired lease")
	require.Len(t, b.partitions[1].messages, 1)
}

// Do finds members as encoding/json does: first by the exact name, then without regard to case.
func TestDoMatchesNamesLikeEncodingJSON(t *testing.T) {
	t.Parallel()
	const text = `{"name":"orders","PENDING":3,"exact":1,"consumer_group":"no"}`
	c := connect(t, answering(func(*http.Request) (int, http.Header, string) { return 200, nil, text }))
	type answer struct {
		Name          string
		Pending       int
		Exact         int
		Same          int `json:"exact"`
		ConsumerGroup string
	}
	var got, want answer
	require.NoError(t, json.Unmarshal([]byte(text), &want))
	require.Equal(t, answer{Name: "orders", Pending: 3, Same: 1}, want)
	require.NoError(t, c.Do(t.Context(), client.Request{Path: "/any"}, &got))
	require.Equal(t, want, got)
}

// ackBody encodes acknowledgments without reflection. The result equals the JSON encoding of the type.
func TestAcknowledgmentsAreEncodedAsTheirType(t *testing.T) {
	t.Parallel()
	var sent []byte
	b := newBroker()
	b.intercept = func(_ *http.Request, body []byte) (int, http.Header, string) {
		sent = body
		return 200, nil, `[{"success":true},{"success":true}]`
	}
	batch := api.AckBatch{Group: "billing", Acks: []client.Ack{
		{TransactionID: "order-1 <\"&>", PartitionID: "p"},
		{
			TransactionID: "order-2", PartitionID: "p", Status: client.Retry, LeaseID: "l", Error: "no\nrope", RetryAfterSeconds: 1.5, PauseGroupSeconds: 30,
		},
	}}
	want, err := jsonv2.Marshal(batch)
	require.NoError(t, err)
	for i := range batch.Acks {
		batch.Acks[i].Group = batch.Group // the batch has the group once, for all acknowledgments
	}
	_, err = connect(t, b).Ack(t.Context(), batch.Acks...)
	require.NoError(t, err)
	var members struct{ Acknowledgments []map[string]any }
	require.NoError(t, json.Unmarshal(sent, &members))
	require.Len(t, members.Acknowledgments[1], reflect.TypeFor[client.Ack]().NumField()-1, "all members but the group")
	require.Equal(t, string(want), string(sent))
}
