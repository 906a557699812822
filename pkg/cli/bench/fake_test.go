package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// stored is a message that the fake server stores.
type stored struct {
	id      string
	payload json.RawMessage
}

// cursor is the progress of a group in a partition.
type cursor struct {
	next  int
	lease string
	until int
}

// fake is a server in memory that can violate the guarantees of Belfry.
type fake struct {
	// Each number says at which event the fake makes a fault. 0 means never.
	//   - lose: the fake drops a message and answers that the message is stored.
	//   - again: a delivery repeats its last message.
	//   - swap: the fake stores a message before its predecessor.
	//   - fail: the fake stores a push of more than two messages and answers 503.
	//   - mix: a delivery names a wrong partition.
	lose, again, swap, fail, mix int
	// takes is the duration of a push.
	takes time.Duration
	// headers is the number of headers that each message must have.
	headers int
	// onRequest is called at the beginning of each push and pop. It may be nil.
	onRequest func()

	mu sync.Mutex
	// partitions has the stored messages. The keys are QUEUE/PARTITION.
	partitions map[string][]stored
	cursors    map[string]*cursor
	changed    chan struct{}
	stored     int
	delivered  int
	pushes     int
	deleted    bool
}

// serveFake starts f. The end of t stops it.
func serveFake(t *testing.T, f *fake) string {
	t.Helper()
	f.partitions, f.cursors, f.changed = map[string][]stored{}, map[string]*cursor{}, make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/configure", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{}`) })
	mux.HandleFunc("DELETE /api/v1/resources/queues/{queue}", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		f.deleted = true
		f.partitions, f.cursors, f.stored = map[string][]stored{}, map[string]*cursor{}, 0
		f.mu.Unlock()
		_, _ = fmt.Fprint(w, `{}`)
	})
	mux.HandleFunc("POST /api/v1/push", f.noted(f.push))
	mux.HandleFunc("GET /api/v1/pop/queue/{queue}", f.noted(f.pop))
	mux.HandleFunc("POST /api/v1/ack/batch", f.ack)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// noted calls onRequest before a handler.
func (f *fake) noted(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if f.onRequest != nil {
			f.onRequest()
		}
		handle(w, req)
	}
}

func (f *fake) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) push(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Items []struct {
			Queue     string            `json:"queue"`
			Partition string            `json:"partition"`
			Payload   json.RawMessage   `json:"payload"`
			Headers   map[string]string `json:"headers"`
		} `json:"items"`
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if f.takes > 0 {
		<-time.After(f.takes)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(body.Items) > 2 {
		f.pushes++ // smaller pushes only prepare the partitions
	}
	for _, item := range body.Items {
		if len(item.Headers) != f.headers {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.stored++
		if f.stored == f.lose {
			continue
		}
		partition := item.Queue + "/" + item.Partition
		log := f.partitions[partition]
		log = append(log, stored{uuid.NewString(), item.Payload})
		if n := len(log); f.swap > 0 && f.stored >= f.swap && n > 1 && f.unseen(partition, n-2) {
			log[n-1], log[n-2] = log[n-2], log[n-1]
			f.swap = 0
		}
		f.partitions[partition] = log
	}
	f.change()
	if f.pushes == f.fail && len(body.Items) > 2 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprint(w, "["+strings.TrimSuffix(strings.Repeat(`{"status":"queued"},`, len(body.Items)), ",")+"]")
}

// unseen reports whether no group has received message n of a partition.
func (f *fake) unseen(partition string, n int) bool {
	for key, c := range f.cursors {
		if strings.HasSuffix(key, "/"+partition) && max(c.next, c.until) > n {
			return false
		}
	}
	return true
}

func (f *fake) pop(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if millis, _ := strconv.Atoi(query.Get("timeout")); query.Get("wait") == "true" {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(millis)*time.Millisecond)
	}
	defer cancel()
	batch, _ := strconv.Atoi(query.Get("batch"))
	for {
		f.mu.Lock()
		answer := f.claimLocked(req.PathValue("queue"), query.Get("consumerGroup"), batch, query.Get("autoAck") == "true")
		changed := f.changed
		f.mu.Unlock()
		if answer != nil {
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		if query.Get("wait") != "true" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
}

// claimLocked returns the next messages of one partition of a queue.
func (f *fake) claimLocked(queue, group string, batch int, autoAck bool) map[string]any {
	for partition, log := range f.partitions {
		named, ok := strings.CutPrefix(partition, queue+"/")
		if !ok {
			continue
		}
		key := group + "/" + partition
		c := f.cursors[key]
		if c == nil {
			c = &cursor{}
			f.cursors[key] = c
		}
		if c.lease != "" || c.next >= len(log) {
			continue
		}
		lease, from := "", c.next
		c.until = min(len(log), from+batch)
		f.delivered++
		if f.delivered == f.mix {
			named = "another"
		}
		var messages []map[string]any
		for _, m := range log[from:c.until] {
			messages = append(messages, map[string]any{
				"transactionId": m.id, "partitionId": partition, "partition": named, "data": m.payload,
			})
		}
		if f.delivered == f.again {
			messages = append(messages, messages[len(messages)-1])
		}
		if autoAck {
			c.next = c.until
		} else {
			lease = uuid.NewString()
			c.lease = lease
		}
		return map[string]any{"leaseId": lease, "messages": messages}
	}
	return nil
}

func (f *fake) ack(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Group string `json:"consumerGroup"`
		Acks  []struct {
			PartitionID string `json:"partitionId"`
			LeaseID     string `json:"leaseId"`
		} `json:"acknowledgments"`
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var leases []string
	results := make([]map[string]any, len(body.Acks))
	for i, ack := range body.Acks {
		c := f.cursors[body.Group+"/"+ack.PartitionID]
		ok := c != nil && (c.lease == ack.LeaseID && c.lease != "" || slices.Contains(leases, ack.LeaseID))
		if ok && c.lease != "" {
			leases = append(leases, c.lease)
			c.next, c.lease = c.until, ""
		}
		results[i] = map[string]any{"success": ok, "error": nil}
	}
	f.change()
	_ = json.NewEncoder(w).Encode(results)
}
