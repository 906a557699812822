//go:build installed && linux

package ha

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/httpcall"
)

const (
	numberedQueue = "ha.numbered"
	// callTimeout limits a request. It is longer than database.request_timeout and the wait of a pop.
	callTimeout = 10 * time.Second
	popWait     = 2000 // ms
)

// numbered is the traffic whose gaps are measured. For each server there is a producer of numbered messages, which repeats a
// message until the server accepts it, and a consumer, which is the only one of its group.
type numbered struct {
	urls   []string
	client *http.Client
	// pushes and deliveries have the gaps of each producer and of each consumer.
	pushes, deliveries []gaps

	mu         sync.Mutex
	pushed     []int            // by producer: how many messages were accepted
	seen       []map[string]int // by consumer and partition: the largest number that was delivered
	complaints []string
}

func newNumbered(urls []string) *numbered {
	n := &numbered{
		urls: urls, client: &http.Client{Transport: principals.Transport(principals.Operator, &http.Transport{})},
		pushes: make([]gaps, len(urls)), deliveries: make([]gaps, len(urls)), pushed: make([]int, len(urls)),
	}
	for range urls {
		n.seen = append(n.seen, map[string]int{})
	}
	return n
}

// configure creates the queue. A pop or an ack that a fault interrupts costs an attempt, so the limit is high.
func (n *numbered) configure(ctx context.Context) error {
	options := map[string]any{"leaseTime": 2, "retryLimit": 1000}
	return n.send(ctx, 0, http.MethodPost, "/api/v1/configure", map[string]any{"queue": numberedQueue, "options": options}, nil)
}

// send sends a request and decodes the answer.
func (n *numbered) send(ctx context.Context, server int, method, target string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	call := httpcall.Call{Method: method, Target: target}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		call.Body = string(text)
	}
	got, err := httpcall.Send(ctx, n.client, n.urls[server], call)
	if err != nil {
		return err
	}
	if got.Status/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %.200s", method, target, got.Status, got.Raw)
	}
	if into == nil || got.Status == http.StatusNoContent {
		return nil
	}
	return json.Unmarshal(got.Raw, into)
}

// produce pushes messages with the numbers 1, 2, 3 to the partition of a server until stop ends.
func (n *numbered) produce(ctx, stop context.Context, server int) {
	partition := strconv.Itoa(server + 1)
	for number := 1; pause(stop, probePause); {
		item := map[string]any{"queue": numberedQueue, "partition": partition, "transactionId": fmt.Sprintf("%s-%d", partition, number), "payload": number}
		if n.send(ctx, server, http.MethodPost, "/api/v1/push", map[string]any{"items": []any{item}}, nil) != nil {
			continue
		}
		n.pushes[server].success()
		n.mu.Lock()
		n.pushed[server] = number
		n.mu.Unlock()
		number++
	}
}

// delivery is the answer to a pop.
type delivery struct {
	LeaseID  string `json:"leaseId"`
	Messages []struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
		Partition     string `json:"partition"`
		Data          int    `json:"data"`
	} `json:"messages"`
}

// consume pops and acknowledges as the only consumer of a group until stop ends.
func (n *numbered) consume(ctx, stop context.Context, server int) {
	for stop.Err() == nil {
		if n.receive(ctx, server) != nil {
			pause(stop, probePause)
		}
	}
}

// receive pops a batch, checks its order and acknowledges it.
func (n *numbered) receive(ctx context.Context, server int) error {
	group := groupOf(server)
	var d delivery
	target := fmt.Sprintf("/api/v1/pop/queue/%s?consumerGroup=%s&batch=100&wait=true&timeout=%d", numberedQueue, group, popWait)
	if err := n.send(ctx, server, http.MethodGet, target, nil, &d); err != nil {
		return err
	}
	if len(d.Messages) == 0 {
		return nil
	}
	n.deliveries[server].success()
	var acks []any
	for _, m := range d.Messages {
		n.check(server, m.Partition, m.Data)
		acks = append(acks, map[string]any{"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": d.LeaseID, "status": "completed"})
	}
	return n.send(ctx, server, http.MethodPost, "/api/v1/ack/batch", map[string]any{"consumerGroup": group, "acknowledgments": acks}, nil)
}

// check records a delivery. A message may come again, but none may be left out.
func (n *numbered) check(server int, partition string, number int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := n.seen[server][partition]
	if number > last+1 {
		n.complaints = append(n.complaints, fmt.Sprintf("%s got message %d of partition %s after message %d", groupOf(server), number, partition, last))
	}
	n.seen[server][partition] = max(last, number)
}

func groupOf(server int) string { return fmt.Sprintf("group-%d", server+1) }

// missing returns what is wrong so far: complaints, and messages that were accepted and not delivered to each group.
func (n *numbered) missing() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.complaints[:len(n.complaints):len(n.complaints)]
	for consumer, seen := range n.seen {
		for producer, accepted := range n.pushed {
			if last := seen[strconv.Itoa(producer+1)]; last < accepted {
				found = append(found, fmt.Sprintf("%s got %d of %d messages of partition %d", groupOf(consumer), last, accepted, producer+1))
			}
		}
	}
	return found
}

// flows reports whether every producer and every consumer had a success after an instant.
func (n *numbered) flows(at time.Time) bool {
	for i := range n.urls {
		if !n.pushes[i].since(at) || !n.deliveries[i].since(at) {
			return false
		}
	}
	return true
}

// longest returns the longest gap of any producer and of any consumer since the last call.
func (n *numbered) longest() (pushes, deliveries time.Duration) {
	for i := range n.urls {
		pushes, deliveries = max(pushes, n.pushes[i].take()), max(deliveries, n.deliveries[i].take())
	}
	return pushes, deliveries
}
