package world

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/httpcall"
)

const (
	// trickling is the number of connections that send one byte per trickleInterval.
	trickling       = 150
	trickleInterval = 100 * time.Millisecond
	// notReading is the number of clients that pop large messages and do not read the answer. Twice as many clients
	// pop from the queues of the workload and do not read the answer.
	notReading = 6
	// largeQueue has the large messages. It is not part of the history.
	largeQueue = "chaos-large"
	// An answer with these messages is larger than the buffers of a connection, so the server notices that the client
	// does not read.
	largeMessages = 3
	largeBytes    = 2 << 20
	// smallBuffer is the receive buffer of a client that does not read.
	smallBuffer = 4 << 10
)

func slowClientFaults() []Fault {
	return []Fault{{Name: "trickle-clients", run: trickle}, {Name: "stop-reading-clients", run: stopReading}}
}

// trickle opens many connections to one server. Each connection sends the body of a push byte by byte and never
// completes it. The server must end each connection. If the server stores such a message, the rule unpushed reports
// it.
func trickle(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	s, d := w.anyServer(choose), hold(choose)
	until := time.Now().Add(d)
	var group errgroup.Group
	refused := make([]int, trickling)
	for i := range trickling {
		group.Go(func() (err error) {
			for time.Now().Before(until) && ctx.Err() == nil && err == nil {
				var got bool
				if got, err = s.trickleOne(ctx, fmt.Sprintf("trickled-%d", i)); got {
					refused[i]++
				}
			}
			return err
		})
	}
	err := group.Wait()
	total := 0
	for _, n := range refused {
		total += n
	}
	return fmt.Sprintf("%s, %d connections for %s, %d bodies refused", s.name, trickling, d, total), err
}

// trickleOne sends a part of a body until the server ends the connection. It returns an error if the connection stays
// open. refused means that the server answered that the body did not arrive in time.
func (s *server) trickleOne(ctx context.Context, id string) (refused bool, err error) {
	conn, err := s.dial(ctx)
	if err != nil {
		Pause(ctx, trickleInterval)
		return false, nil // the server is down because of another fault
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(bodyTimeout + machinePause))
	trickling, end := context.WithCancel(ctx)
	written := make(chan struct{})
	go func() {
		defer close(written)
		text := "POST /api/v1/push HTTP/1.1\r\nHost: chaos\r\nAuthorization: " + principals.Producer + "\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n"
		body := fmt.Sprintf(`{"items":[{"queue":"chaos.0","partition":"p0","transactionId":%q,"payload":"%s`, id, strings.Repeat("x", 1000))
		_, err := conn.Write([]byte(text))
		for i := 0; err == nil && i < len(body) && Pause(trickling, trickleInterval); i++ {
			_, err = conn.Write([]byte{body[i]})
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	end()
	<-written
	var late net.Error
	switch {
	case err == nil:
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusRequestTimeout, nil
	case errors.As(err, &late) && late.Timeout() && ctx.Err() == nil:
		return false, fmt.Errorf("%s did not end a connection whose body did not arrive within %s", s.name, bodyTimeout)
	default:
		return false, nil // the server has closed the connection, or is down
	}
}

// dial connects directly to the server. It bypasses the unreliable network.
func (s *server) dial(ctx context.Context) (net.Conn, error) {
	address := s.address.Load()
	if address == nil {
		return nil, fmt.Errorf("%s was not started", s.name)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", *address)
}

// stopReading starts clients that pop large messages at one server and do not read the answers. The server must end
// each connection, and another consumer must receive the messages. Other clients do the same with the queues of the
// workload. These answers fit into the buffers of a connection, so only the leases end.
func stopReading(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	s, run := w.anyServer(choose), fmt.Sprintf("%016x", choose.Uint64())
	patience, cancel := context.WithTimeout(ctx, recoveryBound)
	defer cancel()
	client := &http.Client{Transport: principals.Transport(principals.Operator, &http.Transport{})}
	defer client.CloseIdleConnections()
	var group errgroup.Group
	for i := range notReading {
		group.Go(func() error {
			l := large{world: w, client: client, partition: fmt.Sprintf("%s-%d", run, i)}
			if err := l.push(patience); err != nil {
				return err
			}
			if err := s.popUnread(patience, l.partition); err != nil {
				return err
			}
			return l.await(patience)
		})
	}
	for range 2 * notReading {
		own := rand.New(rand.NewPCG(choose.Uint64(), choose.Uint64()))
		group.Go(func() error { return w.leaveUnread(ctx, s, own) })
	}
	err := group.Wait()
	if ctx.Err() != nil {
		err = nil // the run has ended
	}
	return fmt.Sprintf("%s, %d clients", s.name, 3*notReading), err
}

// leaveUnread pops from a queue of the workload and leaves the connection open until the lease has ended.
func (w *World) leaveUnread(ctx context.Context, s *server, choose *rand.Rand) error {
	if w.PopUnread == nil {
		return nil
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return nil // the server is down because of another fault
	}
	defer func() { _ = conn.Close() }()
	w.PopUnread(conn, choose)
	Pause(ctx, leaseTime+writeTimeout)
	return nil
}

// popUnread pops all messages of a partition and does not read the answer. It returns when the server has closed the
// connection. It returns an error if the connection stays open.
func (s *server) popUnread(ctx context.Context, partition string) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil // the server is down because of another fault
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(smallBuffer)
	}
	_, err = fmt.Fprintf(conn, "GET /api/v1/pop/queue/%s/partition/%s?batch=%d HTTP/1.1\r\nHost: chaos\r\nAuthorization: %s\r\n\r\n", largeQueue, partition, largeMessages,
		principals.Consumer)
	for began := time.Now(); err == nil; {
		if time.Since(began) > requestTimeout+writeTimeout+machinePause {
			return fmt.Errorf("%s did not end a connection whose client did not read for %s", s.name, writeTimeout)
		}
		if !Pause(ctx, trickleInterval) {
			return nil
		}
		// A write fails if the server has closed the connection.
		_, err = conn.Write([]byte("\n"))
	}
	return nil
}

// large is a partition of largeQueue.
type large struct {
	world     *World
	client    *http.Client
	partition string
}

// ids returns the transaction ids of the messages, in order.
func (l large) ids() []string {
	ids := make([]string, largeMessages)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", l.partition, i)
	}
	return ids
}

// push pushes the messages. It repeats the push until the push succeeds.
func (l large) push(ctx context.Context) error {
	var items []string
	for _, id := range l.ids() {
		items = append(items, fmt.Sprintf(`{"queue":%q,"partition":%q,"transactionId":%q,"payload":%q}`,
			largeQueue, l.partition, id, strings.Repeat("x", largeBytes)))
	}
	body := `{"items":[` + strings.Join(items, ",") + `]}`
	return l.repeat(ctx, httpcall.Call{Method: http.MethodPost, Target: "/api/v1/push", Body: body}, func(got httpcall.Reply) error {
		if got.Status != http.StatusCreated {
			return fmt.Errorf("the push was answered with %d: %.200s", got.Status, got.Raw)
		}
		return nil
	})
}

// await pops until one delivery has all messages in order. The server delivers them after the lease of the client
// that does not read has ended.
func (l large) await(ctx context.Context) error {
	target := fmt.Sprintf("/api/v1/pop/queue/%s/partition/%s?batch=%d&wait=true&timeout=%d", largeQueue, l.partition, largeMessages, probeWait.Milliseconds())
	return l.repeat(ctx, httpcall.Call{Method: http.MethodGet, Target: target}, func(got httpcall.Reply) error {
		var d struct {
			Messages []struct{ TransactionID string }
		}
		if got.Status != http.StatusOK {
			return fmt.Errorf("the pop was answered with %d: %.200s", got.Status, got.Raw)
		}
		if err := json.Unmarshal(got.Raw, &d); err != nil {
			return err
		}
		var ids []string
		for _, m := range d.Messages {
			ids = append(ids, m.TransactionID)
		}
		if !slices.Equal(ids, l.ids()) {
			return fmt.Errorf("a pop after the end of the lease of the unread answer returned %q instead of %q", ids, l.ids())
		}
		return nil
	})
}

// repeat sends the request to one server after the other until an answer is right. Other faults may fail some
// requests.
func (l large) repeat(ctx context.Context, call httpcall.Call, right func(httpcall.Reply) error) error {
	urls := l.world.URLs()
	for n := 0; ; n++ {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		got, err := httpcall.Send(attempt, l.client, urls[n%len(urls)], call)
		cancel()
		if err == nil {
			err = right(got)
		}
		if err == nil {
			return nil
		}
		if !Pause(ctx, trickleInterval) {
			return fmt.Errorf("%s %s: %w", call.Method, call.Target, err)
		}
	}
}
