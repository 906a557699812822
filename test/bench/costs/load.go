package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
)

const (
	queue = "costs"
	// partitions is the number of partitions of the queue. A push writes to one partition.
	partitions = 100
)

// load is a number of messages in batches over some connections.
type load struct{ batch, connections, messages, payload int }

func (l load) calls() int { return l.messages / l.batch }

// inParallel runs work in l.connections goroutines until work returns false or fails.
func (l load) inParallel(work func() (bool, error)) error {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		failed  error
	)
	for range l.connections {
		workers.Go(func() {
			for {
				more, err := work()
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
				if !more || err != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	return failed
}

// body returns a push of l.batch messages to a partition.
func (l load) body(partition int) []byte {
	item := fmt.Sprintf(`{"queue":%q,"partition":"p%d","payload":{"a":%q}}`, queue, partition, strings.Repeat("x", l.payload-len(`{"a":""}`)))
	return []byte(`{"items":[` + strings.Repeat(item+",", l.batch-1) + item + `]}`)
}

// push pushes the messages of l.
func (b *bench) push(ctx context.Context, l load) error {
	bodies := make([][]byte, partitions)
	for i := range bodies {
		bodies[i] = l.body(i)
	}
	var next atomic.Int64
	to := b.URL("/api/v1/push")
	return l.inParallel(func() (bool, error) {
		n := int(next.Add(1)) - 1
		if n >= l.calls() {
			return false, nil
		}
		var answer bytes.Buffer
		err := b.send(ctx, http.MethodPost, to, bodies[n%partitions], &answer)
		return true, err
	})
}

// popped is the part of a pop's answer that an ack needs.
type popped struct {
	Messages []struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
		LeaseID       string `json:"leaseId"`
	} `json:"messages"`
}

type ack struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	LeaseID       string `json:"leaseId"`
	Status        string `json:"status"`
}

// consume pops and acknowledges until the group has no messages.
func (b *bench) consume(ctx context.Context, l load, group string) error {
	from := b.URL("/api/v1/pop/queue/" + queue)
	from.RawQuery = fmt.Sprintf("consumerGroup=%s&batch=%d&wait=false", group, l.batch)
	to := b.URL("/api/v1/ack/batch")
	return l.inParallel(func() (bool, error) {
		var text bytes.Buffer
		var got popped
		err := b.send(ctx, http.MethodGet, from, nil, &text)
		if err != nil || text.Len() == 0 {
			return false, err
		}
		if err := json.Unmarshal(text.Bytes(), &got); err != nil || len(got.Messages) == 0 {
			return false, err
		}
		acks := make([]ack, len(got.Messages))
		for i, m := range got.Messages {
			acks[i] = ack{m.TransactionID, m.PartitionID, m.LeaseID, "completed"}
		}
		body, err := json.Marshal(map[string]any{"consumerGroup": group, "acknowledgments": acks})
		if err != nil {
			return false, err
		}
		text.Reset()
		return true, b.send(ctx, http.MethodPost, to, body, &text)
	})
}

// send sends a request and counts the bytes of both bodies.
func (b *bench) send(ctx context.Context, method string, to *url.URL, body []byte, into *bytes.Buffer) error {
	_, err := b.Do(ctx, method, to, body, into)
	b.sent.Add(int64(len(body)))
	b.received.Add(int64(into.Len()))
	return err
}

// prepare makes the queue, its partitions and groups. No message waits afterwards.
func (b *bench) prepare(ctx context.Context, l load, groups int) error {
	if err := b.Configure(ctx, queue, nil); err != nil {
		return err
	}
	if err := b.makeGroups(ctx, groups); err != nil {
		return err
	}
	warm := load{1, l.connections, partitions * 5, payload}
	if err := b.push(ctx, warm); err != nil {
		return err
	}
	for i := range groups {
		if err := b.consume(ctx, load{100, l.connections, 0, payload}, fmt.Sprint("group-", i)); err != nil {
			return err
		}
	}
	return nil
}

// makeGroups makes groups by a pop each.
func (b *bench) makeGroups(ctx context.Context, n int) error {
	for i := range n {
		from := b.URL("/api/v1/pop/queue/" + queue)
		from.RawQuery = fmt.Sprintf("consumerGroup=group-%d&batch=1&wait=false", i)
		var text bytes.Buffer
		if _, err := b.Do(ctx, http.MethodGet, from, nil, &text); err != nil {
			return err
		}
	}
	return nil
}
