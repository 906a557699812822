package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// sent is one event of a stream.
type sent struct {
	kind, id string
	data     json.RawMessage
}

// stream is an open stream of Server-Sent Events.
type stream struct {
	t      *testing.T
	events chan sent // the events; closed when the stream ends
	// close ends the stream, as a client does that disconnects.
	close func()
}

// openStream sends a request whose answer is an event stream. The end of t closes the stream.
func (s *server) openStream(t *testing.T, c call, headers ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	request, err := http.NewRequestWithContext(ctx, c.Method, s.base+c.Target, strings.NewReader(c.Body))
	require.NoError(t, err)
	if c.Token != "" {
		request.Header.Set("Authorization", c.Token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	response, err := (&http.Client{Transport: transport}).Do(request) //nolint:bodyclose // the goroutine below closes it
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	require.Equal(t, "no", response.Header.Get("X-Accel-Buffering"))
	one := &stream{t: t, events: make(chan sent, 10_000), close: cancel}
	go func() {
		defer close(one.events)
		defer transport.CloseIdleConnections()
		defer func() { _ = response.Body.Close() }() // fails if the stream was cut
		one.read(bufio.NewReader(response.Body))
	}()
	t.Cleanup(cancel)
	return one
}

// read parses the stream until it ends.
func (s *stream) read(from *bufio.Reader) {
	var e sent
	var data []string
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "event":
			e.kind = value
		case "id":
			e.id = value
		case "data":
			data = append(data, value)
		case "":
			if e.kind != "" {
				e.data = json.RawMessage(strings.Join(data, "\n"))
				s.events <- e
			}
			e, data = sent{}, nil
		}
	}
}

// until waits for the next event of a type whose data contains all texts. It skips other events.
func (s *stream) until(kind string, has ...string) sent {
	s.t.Helper()
	limit := time.After(patience)
	var skipped []string
next:
	for {
		select {
		case e, open := <-s.events:
			require.True(s.t, open, "the stream ended before %s %s; it had %s", kind, has, skipped)
			skipped = append(skipped, e.kind+string(e.data))
			if e.kind != kind {
				continue
			}
			for _, text := range has {
				if !strings.Contains(string(e.data), text) {
					continue next
				}
			}
			return e
		case <-limit:
			require.FailNow(s.t, "the event did not arrive in time: "+kind, "%s; it had %s", has, skipped)
		}
	}
}

// wanted is an expected event: its type, and texts in its data.
type wanted struct {
	kind string
	has  []string
}

func event(kind string, has ...string) wanted { return wanted{kind, has} }

// untilEach waits for several events, in any order. It skips other events.
func (s *stream) untilEach(missing ...wanted) {
	s.t.Helper()
	limit := time.After(patience)
	var skipped []string
	for len(missing) > 0 {
		select {
		case e, open := <-s.events:
			require.True(s.t, open, "the stream ended before %s; it had %s", missing, skipped)
			skipped = append(skipped, e.kind+string(e.data))
			missing = slices.DeleteFunc(missing, func(w wanted) bool {
				return w.kind == e.kind && !slices.ContainsFunc(w.has, func(text string) bool { return !strings.Contains(string(e.data), text) })
			})
		case <-limit:
			require.FailNow(s.t, "the events did not arrive in time", "%s; it had %s", missing, skipped)
		}
	}
}

// untilEnd reads the stream until its end and returns the remaining events.
func (s *stream) untilEnd() (rest []sent) {
	s.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e, open := <-s.events:
			if !open {
				return rest
			}
			rest = append(rest, e)
		case <-limit:
			require.FailNow(s.t, "the stream did not end")
		}
	}
}

func watchEvents() call { return get("/api/v1/events") }

// One watcher must see the events of both instances and of SQL sessions.
func TestEventsOfBothInstancesArrive(t *testing.T) {
	t.Parallel()
	quick := func(cfg *config.Config) {
		cfg.Problems.LateAfter, cfg.Live.ReadInterval = time.Second, time.Second
	}
	here := start(t, proven, quick)
	there := startOn(t, here.dsn, proven, quick)
	here.untilProven(t, 0)
	there.untilProven(t, 0)
	watching := here.openStream(t, watchEvents())
	watching.until("snapshot", `"listener":"proven"`)
	for i, s := range []*server{here, there} {
		c, name := s.client(t), fmt.Sprint("q", i)
		of := `"queue":"` + name + `"`
		known(c, name)
		watching.until("queue.created", of)
		require.Equal(t, http.StatusNoContent, c.pop(name, "").Status) // registers the group
		watching.until("group.created", of)
		c.send1(post("/api/v1/resources/queues/"+name+"/pause", ""))
		watching.untilEach(event("queue.paused", of), event("audit", `"delivery.pause"`, of))
		c.exec(`SELECT belfry.resume($1)`, name)
		watching.until("queue.resumed", of)
		c.pushIDs(name, "p", "1", "2")
		watching.untilEach(event("rates", of+`,"pushed":`), event("lag", of, `"beyond":true`))
		got := c.pop(name, "batch=2&subscriptionMode=all").ok(http.StatusOK)
		c.ack(got.ack("completed", 0)[0]).ok(http.StatusOK)
		c.ack(got.ack("dlq", 1)[0]).ok(http.StatusOK)
		watching.untilEach(event("lag", of, `"beyond":false`), event("dead_letters", of, `"beyond":true`))
		c.send1(call{Method: http.MethodDelete, Target: "/api/v1/resources/queues/" + name})
		watching.until("queue.deleted", of)
	}
	there.client(t).send1(post("/api/v1/system/maintenance/pop", `{"enabled":true}`))
	last := watching.until("maintenance", `"pop":true`)
	watching.close()
	again := here.openStream(t, watchEvents(), "Last-Event-ID", last.id)
	there.client(t).pushIDs("q3", "p", "1")
	require.NotEqual(t, "snapshot", again.until("queue.created", `"queue":"q3"`).kind)

	require.NoError(t, there.stop(t))
	again.until("instance", `"left"`)
	require.NoError(t, here.stop(t))
	rest := again.untilEnd()
	require.Equal(t, "closing", rest[len(rest)-1].kind)
	require.Contains(t, string(rest[len(rest)-1].data), `"shutdown"`)
}

func streamOf(queue, query string) call { return get("/api/v1/sse/queue/" + queue + "?" + query) }

// message waits for the next message of the stream.
func (s *stream) message() (m message) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal(s.until("message").data, &m))
	return m
}

// quiet fails the test if an event arrives within a time.
func (s *stream) quiet(d time.Duration) {
	s.t.Helper()
	select {
	case e := <-s.events:
		require.FailNow(s.t, "no event may arrive", "%s %s", e.kind, e.data)
	case <-time.After(d):
	}
}

// A stream delivers messages with leases, at most max_in_flight at a time. After an ack, at this server or at another one,
// it delivers the next message. When the client disconnects, its leases are released and the attempts do not count.
func TestAStreamOfMessages(t *testing.T) {
	t.Parallel()
	here := start(t, proven)
	there := startOn(t, here.dsn, proven)
	here.untilProven(t, 0)
	there.untilProven(t, 0)
	c, other := here.client(t), there.client(t)
	known(c, "q")
	one := here.openStream(t, streamOf("q", "consumerGroup=g&max_in_flight=2"))
	c.untilWaiting(1)
	for i := range 6 {
		other.pushIDs("q", fmt.Sprint("p", i), fmt.Sprint(i))
	}
	first, second := one.message(), one.message()
	one.quiet(200 * time.Millisecond)
	ack := func(c client, m message) {
		got := c.ack(ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, ConsumerGroup: "g", Status: "completed"}).ok(http.StatusOK)
		require.True(t, got[0].Success, got[0].reason())
	}
	ack(c, first)
	third := one.message()
	ack(other, second)
	fourth := one.message()
	one.close()
	one.untilEnd()
	seen := map[string]int{}
	for len(seen) < 4 { // the server releases the leases after the end of the request
		got := other.pop("q", "consumerGroup=g&wait=true&timeout=1000")
		if got.Status == http.StatusOK {
			m := got.ok(http.StatusOK).Messages[0]
			seen[m.TransactionID] = m.Attempt
		}
	}
	require.Equal(t, 1, seen[third.TransactionID])
	require.Equal(t, 1, seen[fourth.TransactionID])

	// A paused group gets no messages. A stop of the server ends the stream.
	two := here.openStream(t, streamOf("q", "consumerGroup=h&subscriptionMode=new&batch=2"))
	c.untilWaiting(1)
	c.send1(post("/api/v1/consumer-groups/h/queues/q/pause", ""))
	c.pushIDs("q", "p9", "paused")
	two.quiet(300 * time.Millisecond)
	c.send1(post("/api/v1/consumer-groups/h/queues/q/resume", ""))
	require.Equal(t, "paused", two.message().TransactionID)
	watch := stopwatch.Start(t)
	require.NoError(t, here.stop(t))
	rest := two.untilEnd()
	require.JSONEq(t, `{"reason":"shutdown"}`, string(rest[len(rest)-1].data))
	watch.Within(t, 5*time.Second, "time of a stop with open streams")
}

// If a client does not read for http.write_timeout, the server must end its stream, and other consumers get its messages. A
// stream whose client reads must last longer than http.write_timeout.
func TestAStreamWhoseClientDoesNotReadIsDropped(t *testing.T) {
	t.Parallel()
	s := start(t, func(cfg *config.Config) { cfg.HTTP.WriteTimeout = 500 * time.Millisecond })
	c := s.client(t)
	known(c, "q")
	known(c, "other")
	began, other := time.Now(), s.openStream(t, streamOf("other", ""))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }() // fails if the server has closed the connection
	tcp, _ := conn.(*net.TCPConn)
	require.NoError(t, tcp.SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /api/v1/sse/queue/q?batch=100 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	c.untilWaiting(2)
	const size, n = 1 << 20, 6 // more than the buffers of both sockets can hold
	for i := range n {
		c.send1(post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"q","partition":"p%d","payload":%q}]}`, i, strings.Repeat("x", size))))
	}
	for got := 0; got < n; {
		// Each pop asks for one message, because http.write_timeout also applies to the answers of pops.
		answer, err := c.send(t.Context(), popCall("q", "wait=true&timeout=1000"))
		if err != nil || answer.Status == http.StatusNoContent {
			continue // the test machine paused while it read the answer, or the stream still has the leases
		}
		for _, m := range read[delivery](t, answer).ok(http.StatusOK).Messages {
			require.Equal(t, 1, m.Attempt)
			got++
		}
	}
	require.Greater(t, time.Since(began), 500*time.Millisecond)
	c.pushIDs("other", "p", "late")
	require.Equal(t, "late", other.message().TransactionID)
}
