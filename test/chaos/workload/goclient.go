package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	goclient "github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/test/chaos/principals"
)

// goQueue is the queue of the Go client, pkg/client. It is not in the history: the consumer checks the numbers in
// messages.
const (
	goQueue      = "chaos.go"
	goPartitions = 4
	goWorkers    = 3
	// goPatience is the time to wait for the next message. After a longer gap, the remaining messages count as lost.
	goPatience = 15 * time.Second
	// goGrace is the time for handlers to finish at the end of the run.
	goGrace = 2 * time.Second
	// shortestGo and longestGo limit the random pauses of the producer. mostGo is the maximum number of messages per
	// push.
	shortestGo, longestGo = 5 * time.Millisecond, 40 * time.Millisecond
	mostGo                = 10
)

// goRun counts the messages of goQueue in each partition. pushed is the number of messages whose push was answered.
// next is one more than the highest number that was received.
type goRun struct {
	clients *Clients
	mu      sync.Mutex
	pushed  [goPartitions]int
	next    [goPartitions]int
	came    bool // a message was received since the last call of progressed
}

// workGo pushes and consumes with the Go client. It returns after stop has ended and every message is handled, or
// after ctx has ended.
func (c *Clients) workGo(ctx, stop context.Context) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	made, err := goclient.New(goclient.Config{
		URLs: c.cfg.URLs, HTTPClient: &http.Client{Transport: transport}, Token: goclient.StaticToken(principals.Consumer), RequestTimeout: callTimeout,
	})
	if err != nil {
		c.complain("making a Go client: %v", err)
		return
	}
	run := &goRun{clients: c}
	consuming, finish := context.WithCancel(ctx)
	defer finish()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := goclient.Consume(consuming, made, goclient.ConsumeOptions{
			Queue: goQueue, Group: "go", Concurrency: goWorkers, Batch: 20, Partitions: 2, Lease: LeaseTime, Grace: goGrace,
		}, run.handle)
		if err != nil {
			c.complain("the Go client ended: %v", err)
		}
	}()
	run.push(ctx, stop, made)
	for last := time.Now(); !run.complete() && time.Since(last) < goPatience && pause(ctx, idlePause); {
		if run.progressed() {
			last = time.Now()
		}
	}
	if !run.complete() {
		c.complain("the Go client did not receive all messages: %v instead of %v", run.next, run.pushed)
	}
	finish()
	<-ended
}

// push pushes consecutive numbers until stop ends.
func (r *goRun) push(ctx, stop context.Context, c *goclient.Client) {
	for pause(stop, shortestGo+rand.N(longestGo-shortestGo)) {
		p := rand.N(goPartitions)
		items := make([]goclient.Item, 1+rand.N(mostGo))
		for i := range items {
			n := r.pushed[p] + i // only this goroutine writes pushed
			items[i] = goclient.Item{Queue: goQueue, Partition: partitionName(p), TransactionID: fmt.Sprint(n), Payload: [2]int{p, n}}
		}
		for {
			_, err := c.PushMany(ctx, items)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			if !errors.Is(err, goclient.ErrUnavailable) {
				r.clients.complain("a push of the Go client: %v", err)
			}
		}
		r.mu.Lock()
		r.pushed[p] += len(items)
		r.mu.Unlock()
	}
}

// handle checks that no message arrives before its predecessor. Sometimes it fails, panics, or takes longer than the
// lease.
func (r *goRun) handle(ctx context.Context, m *goclient.Message[[2]int]) error {
	p, n := m.Data[0], m.Data[1]
	r.mu.Lock()
	if n > r.next[p] {
		r.clients.complain("the Go client received message %d of %s after %d", n, m.Partition, r.next[p]-1)
	}
	r.next[p], r.came = max(r.next[p], n+1), true
	r.mu.Unlock()
	switch dice := rand.N(1000); {
	case dice < 10:
		return errors.New("by chance")
	case dice < 20:
		return goclient.RetryLater(errors.New("by chance"))
	case dice < 25:
		return goclient.DeadLetter(errors.New("by chance"))
	case dice < 30:
		panic("by chance")
	case dice < 33:
		pause(ctx, LeaseTime+overdue)
	}
	return ctx.Err()
}

// complete reports whether every pushed message was received.
func (r *goRun) complete() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next == r.pushed
}

// progressed reports whether a message was received since the last call.
func (r *goRun) progressed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	came := r.came
	r.came = false
	return came
}
