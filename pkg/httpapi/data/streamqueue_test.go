package data_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// answer is a response that a test reads while the handler writes it.
type answer struct {
	mu sync.Mutex
	httptest.ResponseRecorder
	broken bool
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken {
		return 0, errors.New("broken pipe")
	}
	return a.ResponseRecorder.Write(p)
}

func (a *answer) Flush() {}

// take returns what was written since the last call.
func (a *answer) take() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	text := a.Body.String()
	a.Body.Reset()
	return text
}

// streaming is a stream on fakes, in a bubble of synctest.
type streaming struct {
	*answer
	server *httpapi.Server
	fakes  *apitest.Fakes
	// messages has the messages for the next pops. pops has the requests so far.
	mu       sync.Mutex
	messages []queue.Message
	arrived  chan struct{}
	pops     []queue.PopRequest
	auth     auth
	failing  atomic.Bool
	refused  atomic.Bool
	stopped  atomic.Bool
	// delivering, if not nil, is called before a pop returns messages.
	delivering func()
	leave      context.CancelFunc
	ended      chan struct{}
}

// partitionOf returns the partition of a message: the first letter of its id.
func partitionOf(id string) *queue.Partition {
	return &queue.Partition{ID: queue.ID{id[0]}, Key: int64(id[0]), Queue: "q", Name: id[:1]}
}

// auth accepts one token. The test revokes it by closing revoked.
type auth struct{ revoked chan struct{} }

func (a auth) Verify(context.Context, string) (*identity.Principal, error) {
	return &identity.Principal{Role: identity.ReadWrite, Check: func() error {
		select {
		case <-a.revoked:
			return &queue.Error{Code: queue.CodeUnauthenticated, Message: "revoked"}
		default:
			return nil
		}
	}}, nil
}

func (auth) Skips(string) bool { return false }

func (a auth) NextRevocation() <-chan struct{} { return a.revoked }

// openStream starts a stream. Each pop delivers the next messages of one partition, up to its batch, with a new lease.
func openStream(query string) *streaming {
	s := &streaming{answer: &answer{ResponseRecorder: *httptest.NewRecorder()}, auth: auth{make(chan struct{})}, arrived: make(chan struct{}, 1), ended: make(chan struct{})}
	s.fakes = &apitest.Fakes{Streaming: true, Pop: func(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
		s.mu.Lock()
		s.pops = append(s.pops, *req)
		s.mu.Unlock()
		d := queue.Delivery{Queue: "q", Group: req.Group, Partitions: 1}
		wait := time.After(req.Wait)
		for len(d.Messages) == 0 {
			switch {
			case s.failing.Load():
				return d, &queue.Error{Code: queue.CodeUnavailable, Message: "the database is away"}
			case s.refused.Load():
				return d, &queue.Error{Code: queue.CodeOverloaded, Message: "too many", RetryAfter: 1500 * time.Millisecond}
			case s.stopped.Load():
				return d, nil
			}
			s.mu.Lock()
			for len(s.messages) > 0 && len(d.Messages) < req.Batch && (len(d.Messages) == 0 || d.Messages[0].Partition.ID == s.messages[0].Partition.ID) {
				d.Messages, s.messages = append(d.Messages, s.messages[0]), s.messages[1:]
			}
			s.mu.Unlock()
			if len(d.Messages) > 0 {
				d.LeaseID = queue.NewID()
				if s.delivering != nil {
					s.delivering()
				}
				break
			}
			select {
			case <-s.arrived:
			case <-s.auth.revoked:
				return d, req.Valid()
			case <-wait:
				return d, nil
			case <-ctx.Done():
				return d, ctx.Err()
			}
		}
		return d, nil
	}}
	s.server, _ = apitest.Server(s.fakes, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Auth = s.auth })
	ctx, cancel := context.WithCancel(context.Background())
	s.leave = cancel
	request := apitest.Request("GET", "/api/v1/sse/queue/q?"+query, "").WithContext(ctx)
	go func() {
		defer close(s.ended)
		s.server.Handler().ServeHTTP(s.answer, request)
	}()
	synctest.Wait()
	return s
}

// push adds messages for the next pops. The first letter of an id is the partition, and the second letter is the position in it.
func (s *streaming) push(ids ...string) {
	s.mu.Lock()
	for _, id := range ids {
		s.messages = append(s.messages, queue.Message{Partition: partitionOf(id), TransactionID: id, Seq: int64(id[1] - 'a' + 1), Payload: []byte("[\n1]")})
	}
	s.mu.Unlock()
	s.arrived <- struct{}{}
	synctest.Wait()
}

// ids returns the transaction ids that the stream has sent since the last call.
func (s *streaming) ids() (ids []string) {
	for _, part := range strings.Split(s.take(), `"transactionId":"`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		ids = append(ids, id)
	}
	return ids
}

// ack acknowledges a message at this server.
func (s *streaming) ack(id, status string, result queue.AckResult) {
	s.fakes.Ack = func([]queue.AckItem) ([]queue.AckResult, error) { return []queue.AckResult{result}, nil }
	body := `{"transactionId":"` + id + `","partitionId":"` + partitionOf(id).ID.String() + `","consumerGroup":"g","status":"` + status + `"}`
	apitest.Send(s.server, apitest.Request("POST", "/api/v1/ack", body))
}

func TestAStreamDeliversMessagesAsEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStream("consumerGroup=g&batch=5&max_in_flight=9&subscriptionMode=new")
		<-time.After(2 * time.Millisecond)
		require.Equal(t, "retry: 2000\n\n", s.take())
		require.Equal(t, http.StatusOK, s.Code)
		require.Equal(t, "text/event-stream", s.Header().Get("Content-Type"))
		require.Equal(t, "no", s.Header().Get("X-Accel-Buffering"))
		s.push("1a")
		text := s.take()
		require.Contains(t, text, "event: message\ndata: {\"id\":null,\"transactionId\":\"1a\",\"traceId\":null,\"data\":[\ndata: 1],")
		require.Contains(t, text, `"consumerGroup":"g"`)
		<-time.After(15*time.Second - time.Millisecond)
		require.Empty(t, s.take())
		<-time.After(2 * time.Millisecond)
		require.Equal(t, ":\n\n", s.take(), "a keep-alive")
		<-time.After(time.Minute)
		require.Equal(t, ":\n\n:\n\n:\n\n:\n\n", s.take())
		for i, pop := range s.pops {
			wait := 10 * time.Minute
			if i == 0 {
				wait = time.Millisecond
			}
			require.Equal(t, wait, pop.Wait)
			require.Equal(t, queue.Subscription{Mode: queue.SubscribeNew}, pop.Subscription)
			require.Equal(t, 5, pop.Batch)
		}
		s.leave()
		<-s.ended
	})
}

// At most max_in_flight messages are unacknowledged. After an acknowledgment of any status, the stream sends another message.
func TestAcknowledgmentsLetTheStreamContinue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStream("consumerGroup=g&batch=9&max_in_flight=3")
		s.push("1a", "1b", "1c", "2a", "3a", "4a", "5a", "6a", "7a")
		require.Equal(t, []string{"1a", "1b", "1c"}, s.ids())
		s.ack("9x", "completed", queue.AckResult{Success: true, Resolved: true})
		s.ack("1b", "completed", queue.AckResult{Resolved: true})
		require.Empty(t, s.ids(), "neither acknowledgment settled a message")
		s.ack("1b", "completed", queue.AckResult{Success: true, Resolved: true})
		require.Equal(t, []string{"2a", "3a"}, s.ids(), "1b includes 1a")
		s.ack("2a", "dlq", queue.AckResult{Success: true, Resolved: true, DeadLettered: true})
		require.Equal(t, []string{"4a"}, s.ids())
		s.ack("1c", "failed", queue.AckResult{Success: true, Resolved: true, LeaseReleased: true})
		require.Equal(t, []string{"5a"}, s.ids())
		s.fakes.Transact = func(*queue.Transaction) (queue.TransactionResult, error) {
			return queue.TransactionResult{Applied: true, Operations: []queue.OperationResult{{Ack: &queue.AckResult{Success: true, Resolved: true}}}}, nil
		}
		apitest.Send(s.server, apitest.Request("POST", "/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"4a","partitionId":"`+partitionOf("4").ID.String()+`","consumerGroup":"g"}]}`))
		require.Equal(t, []string{"6a"}, s.ids())
		s.leave()
		<-s.ended
	})
}

// A full stream asks the database rarely which messages consumers have acknowledged at other instances.
func TestAFullStreamNoticesAcknowledgmentsAtOtherInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStream("consumerGroup=g&batch=9&max_in_flight=3")
		var checks, done atomic.Int64
		s.fakes.PositionsOf = func(leases []queue.ID) map[catalog.LeasePosition]int64 {
			checks.Add(1)
			if done.Load() < 0 {
				return nil // the leases have ended
			}
			found := map[catalog.LeasePosition]int64{}
			for _, lease := range leases {
				for _, p := range "123" {
					found[catalog.LeasePosition{Lease: lease, Partition: int64(p)}] = done.Load()
				}
			}
			return found
		}
		<-time.After(time.Hour)
		require.Zero(t, checks.Load(), "a stream that is not full does not ask the database")
		s.push("1a", "1b", "1c", "2a", "3a", "4a")
		s.take()
		<-time.After(time.Minute)
		require.Empty(t, s.ids())
		require.InDelta(t, 6, checks.Load(), 1)
		done.Store(2) // the last finished message of the partition 1
		<-time.After(15 * time.Second)
		require.Equal(t, []string{"2a", "3a"}, s.ids())
		done.Store(-1)
		<-time.After(15 * time.Second)
		require.Equal(t, []string{"4a"}, s.ids(), "all leases have ended")
		s.leave()
		<-s.ended
	})
}

// When the client disconnects, its leases are released. When the server ends the stream, the leases are kept.
func TestLeasesAreReleasedWhenTheClientDisconnects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end      func(s *streaming)
		released int
		last     string
	}{
		"the client disconnects": {func(s *streaming) { s.leave() }, 2, ""},
		"the client stops reading": {func(s *streaming) {
			s.answer.mu.Lock()
			s.broken = true
			s.answer.mu.Unlock()
			s.push("9z")
		}, 3, ""},
		"the server stops": {func(s *streaming) {
			s.server.EndStreams()
			s.stopped.Store(true) // the fake dispatcher ends the wait
			s.push()
		}, 0, "event: closing\ndata: {\"reason\":\"shutdown\"}\n\n"},
		"the token is revoked": {func(s *streaming) { close(s.auth.revoked) }, 0, "event: closing\ndata: {\"reason\":\"unauthorized\"}\n\n"},
		"the token of a full stream is revoked": {func(s *streaming) {
			s.push("4a", "5a", "6a", "7a", "8a", "9a")
			s.take()
			close(s.auth.revoked)
		}, 0, "event: closing\ndata: {\"reason\":\"unauthorized\"}\n\n"},
		"the token is revoked when a message comes": {func(s *streaming) {
			s.delivering = func() { close(s.auth.revoked) }
			s.push("9z")
		}, 1, "event: closing\ndata: {\"reason\":\"unauthorized\"}\n\n"},
		"the timeout passes": {func(*streaming) { <-time.After(time.Minute) }, 0, "event: closing\ndata: {\"reason\":\"timeout\"}\n\n"},
		"the database fails": {func(s *streaming) {
			s.failing.Store(true)
			s.push()
		}, 0, "event: closing\ndata: {\"reason\":\"error\",\"error\":\"the database is away\"}\n\n"},
		"the dispatcher refuses to wait": {func(s *streaming) {
			s.refused.Store(true)
			s.push()
		}, 0, "event: closing\ndata: {\"reason\":\"overloaded\",\"retryAfter\":2,\"error\":\"too many\"}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := openStream("consumerGroup=g&batch=9&timeout=60000&max_in_flight=9")
				s.push("1a", "2a", "3a", "3b")
				require.Equal(t, []string{"1a", "2a", "3a", "3b"}, s.ids())
				s.ack("3b", "completed", queue.AckResult{Success: true, Resolved: true, LeaseReleased: true})
				began := time.Now()
				c.end(s)
				<-s.ended
				if strings.Contains(name, "revoked") {
					require.Equal(t, began, time.Now())
				}
				got := s.take()
				require.NotContains(t, got, "9z")
				require.True(t, strings.HasSuffix(got, c.last), got)
				require.Len(t, s.fakes.Released, c.released)
			})
		})
	}
}

// A refused stream gets an error status, like a refused long poll.
func TestARefusedStreamHasAnErrorStatus(t *testing.T) {
	t.Parallel()
	refused := &apitest.Fakes{Streaming: true, Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		return queue.Delivery{}, &queue.Error{Code: queue.CodeOverloaded, Message: "too many", RetryAfter: time.Second}
	}}
	answer := apitest.Call(refused, "GET", "/api/v1/sse/queue/q", "")
	require.Equal(t, "too many", apitest.RequireError(t, answer, http.StatusServiceUnavailable))
	require.Equal(t, "1", answer.Header().Get("Retry-After"))
	displaced := &apitest.Fakes{Streaming: true, Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		return queue.Delivery{Displaced: true}, nil
	}}
	answer = apitest.Call(displaced, "GET", "/api/v1/sse/queue/q?timeout=1", "")
	apitest.RequireError(t, answer, http.StatusServiceUnavailable)
	require.Equal(t, "1", answer.Header().Get("Retry-After"))
	apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, "GET", "/api/v1/sse/queue/q?autoAck=true", ""), http.StatusBadRequest)
}

// The server reuses the response of a finished handler for another request. So a keep-alive that runs after the end of the
// stream must not write.
func TestNothingIsWrittenAfterTheEndOfAStream(t *testing.T) {
	t.Parallel()
	require.NotPanics(t, func() { require.Error(t, data.FinishBeforeAKeepAlive()) })
}
