package client_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client"
)

// broker is a fake server with one queue and one group, in memory. It is also a transport, so that tests can run in virtual time.
type broker struct {
	mu         sync.Mutex
	partitions []*partition
	changed    chan struct{}
	leases     int
	leaseTime  time.Duration
	// intercept may answer a request instead of the broker. If it returns the status 0, the broker answers.
	intercept func(r *http.Request, body []byte) (status int, header http.Header, answer string)
	// requests has the method and path of each request.
	requests []string
	// acks has "id status" for each acknowledgment that was applied.
	acks []string
}

type partition struct {
	name     string
	messages []fakeItem
	cursor   int
	// lease is the id of the lease, or "". last is the index after the last message that the lease covers.
	lease   string
	until   time.Time
	last    int
	attempt int
}

type fakeItem struct {
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	TransactionID string          `json:"transactionId"`
	TraceID       string          `json:"traceId"`
	Payload       json.RawMessage `json:"payload"`
}

func newBroker() *broker {
	return &broker{changed: make(chan struct{}), leaseTime: 300 * time.Second}
}

// RoundTrip answers a request in the goroutine of the caller.
func (b *broker) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	b.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if recorder.Code == lostAnswer {
		return nil, io.ErrUnexpectedEOF
	}
	return recorder.Result(), nil
}

// lostAnswer is the status of an intercepted request whose answer is lost.
const lostAnswer = 599

func (b *broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	b.mu.Lock()
	b.requests = append(b.requests, r.Method+" "+r.URL.Path)
	intercept := b.intercept
	b.mu.Unlock()
	if intercept != nil {
		if status, header, answer := intercept(r, body); status != 0 {
			for name, values := range header {
				w.Header()[name] = values
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
			return
		}
	}
	switch {
	case r.URL.Path == "/api/v1/push":
		b.push(w, body)
	case strings.HasPrefix(r.URL.Path, "/api/v1/pop"):
		b.pop(w, r)
	case r.URL.Path == "/api/v1/ack/batch":
		b.ack(w, body)
	case r.URL.Path == "/api/v1/transaction":
		b.transaction(w, body)
	case strings.HasSuffix(r.URL.Path, "/extend"):
		b.extend(w, r, body)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"no such path"}`)
	}
}

func (b *broker) announceLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *broker) push(w http.ResponseWriter, body []byte) {
	var request struct{ Items []fakeItem }
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	results := []map[string]any{}
	for i, item := range request.Items {
		name := cmp.Or(item.Partition, "Default")
		at := slices.IndexFunc(b.partitions, func(p *partition) bool { return p.name == name })
		if at < 0 {
			b.partitions = append(b.partitions, &partition{name: name})
			at = len(b.partitions) - 1
		}
		p, status := b.partitions[at], "queued"
		if slices.ContainsFunc(p.messages, func(other fakeItem) bool { return other.TransactionID == item.TransactionID }) {
			status = "duplicate"
		} else {
			p.messages = append(p.messages, item)
		}
		results = append(results, map[string]any{
			"index": i, "status": status, "transaction_id": item.TransactionID, "message_id": "message-" + item.TransactionID,
			"partition_id": name, "trace_id": nil, "queueName": item.Queue,
		})
	}
	b.announceLocked()
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(results)
}

func (b *broker) pop(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	batch, _ := strconv.Atoi(query.Get("batch"))
	partitions, _ := strconv.Atoi(query.Get("partitions"))
	timeout, _ := strconv.Atoi(query.Get("timeout"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(timeout)*time.Millisecond)
	defer cancel()
	for {
		b.mu.Lock()
		changed := b.changed
		messages, next := b.claimLocked(max(1, batch), max(1, partitions))
		b.mu.Unlock()
		if len(messages) > 0 {
			_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "queue": "orders", "messages": messages})
			return
		}
		expiry := time.After(next)
		select {
		case <-changed:
		case <-expiry:
		case <-ctx.Done():
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
}

// claimLocked leases partitions and returns their messages. Without a message, it returns the time until the next lease ends.
func (b *broker) claimLocked(batch, partitions int) (messages []map[string]any, next time.Duration) {
	b.leases++
	lease, now := fmt.Sprintf("lease-%d", b.leases), time.Now()
	next = time.Hour
	for _, p := range b.partitions {
		if p.lease != "" && p.until.After(now) {
			next = min(next, p.until.Sub(now))
			continue
		}
		if p.cursor == len(p.messages) || batch == 0 || partitions == 0 {
			continue
		}
		partitions--
		p.lease, p.until, p.last = lease, now.Add(b.leaseTime), min(len(p.messages), p.cursor+batch)
		p.attempt++
		for _, m := range p.messages[p.cursor:p.last] {
			batch--
			var trace any
			if m.TraceID != "" {
				trace = m.TraceID
			}
			messages = append(messages, map[string]any{
				"id": "message-" + m.TransactionID, "transactionId": m.TransactionID, "traceId": trace, "data": m.Payload,
				"producerSub": nil, "createdAt": "2026-05-16T08:41:27.123456Z", "partitionId": p.name, "partition": p.name,
				"leaseId": lease, "consumerGroup": "billing", "attempt": p.attempt,
			})
		}
	}
	return messages, next
}

func (b *broker) ack(w http.ResponseWriter, body []byte) {
	var request struct{ Acknowledgments []client.Ack }
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	results := []map[string]any{}
	for _, ack := range request.Acknowledgments {
		p := b.partitions[slices.IndexFunc(b.partitions, func(p *partition) bool { return p.name == ack.PartitionID })]
		result := map[string]any{"transactionId": ack.TransactionID, "success": true, "error": nil}
		if p.lease != ack.LeaseID || !p.until.After(time.Now()) {
			result["success"], result["error"] = false, "Invalid or expired lease"
		} else {
			status := string(ack.Status)
			if ack.PauseGroupSeconds != 0 {
				status += fmt.Sprint(" pause ", ack.PauseGroupSeconds)
			}
			b.acks = append(b.acks, ack.TransactionID+" "+status)
			b.applyLocked(p, ack)
		}
		results = append(results, result)
	}
	b.announceLocked()
	_ = json.NewEncoder(w).Encode(results)
}

func (b *broker) applyLocked(p *partition, ack client.Ack) {
	const retryLimit = 3
	switch {
	case ack.Status == client.Retry, ack.Status == client.Failed && p.attempt <= retryLimit:
		p.lease = ""
	default:
		p.cursor = 1 + slices.IndexFunc(p.messages, func(m fakeItem) bool { return m.TransactionID == ack.TransactionID })
		p.attempt = 0
		if p.cursor == p.last {
			p.lease = ""
		}
	}
}

func (b *broker) extend(w http.ResponseWriter, r *http.Request, body []byte) {
	var request struct{ Seconds int }
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	until, id := time.Now().Add(time.Duration(request.Seconds)*time.Second), strings.Split(r.URL.Path, "/")[4]
	found := false
	for _, p := range b.partitions {
		if p.lease == id && p.until.After(time.Now()) {
			found = true
			if until.After(p.until) {
				p.until = until
			}
		}
	}
	if !found {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"leaseId":"`+id+`","success":false,"error":"Lease not found","expiresAt":null}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "expiresAt": until})
}

// transaction applies the operations in order, and stops at the first ack without a live lease. It undoes nothing.
func (b *broker) transaction(w http.ResponseWriter, body []byte) {
	var request struct {
		Operations []struct {
			client.Ack
			Type  string
			Items json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	for _, o := range request.Operations {
		recorder := httptest.NewRecorder()
		if o.Type == "push" {
			b.push(recorder, []byte(`{"items":`+string(o.Items)+`}`))
			continue
		}
		acks, _ := json.Marshal(map[string]any{"acknowledgments": []client.Ack{o.Ack}})
		b.ack(recorder, acks)
		if strings.Contains(recorder.Body.String(), `"success":false`) {
			_, _ = io.WriteString(w, `{"success":false,"error":"Invalid or expired lease","results":[{"error":"Invalid or expired lease"}]}`)
			return
		}
	}
	_, _ = io.WriteString(w, `{"success":true,"results":[]}`)
}

// endLeases ends all leases, as a seek does.
func (b *broker) endLeases() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.partitions {
		p.lease = ""
	}
	b.announceLocked()
}

// acked returns the acknowledgments that were applied.
func (b *broker) acked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.acks)
}

// count returns the number of requests with a method and path.
func (b *broker) count(request string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, r := range b.requests {
		if strings.Contains(r, request) {
			n++
		}
	}
	return n
}
