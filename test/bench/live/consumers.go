package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// settle is the time between the arrival of the consumers and the reading of their memory. Go collects garbage and
	// shrinks stacks at least every two minutes.
	settle = 130 * time.Second
	// pushGap is the time between two timed pushes. In this time the consumer starts to wait again.
	pushGap = 10 * time.Millisecond
)

// arrival is a message that a consumer received.
type arrival struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	LeaseID       string `json:"leaseId"`
	at            time.Time
}

// consume opens a consumer and calls got with each message, until ctx ends.
type consume func(ctx context.Context, base, queue string, got func(arrival)) error

// open sends a GET request and returns the answer. The caller closes its body.
func open(ctx context.Context, client *http.Client, target string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

// stream is a consumer with Server-Sent Events.
func stream(ctx context.Context, base, queue string, got func(arrival)) error {
	return watch(ctx, base+"/api/v1/sse/queue/"+queue, func(data string) error {
		var m arrival
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return err
		}
		m.at = time.Now()
		got(m)
		return nil
	})
}

// watch reads an event stream until ctx ends. It calls got with the data of each event.
func watch(ctx context.Context, target string, got func(data string) error) (err error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answer, err := open(ctx, client, target)
	if err != nil {
		return ended(ctx, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", target, answer.StatusCode)
	}
	for lines := bufio.NewReaderSize(answer.Body, 1024); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return ended(ctx, err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := got(data); err != nil {
				return err
			}
		}
	}
}

// poll is a consumer with long polls.
func poll(ctx context.Context, base, queue string, got func(arrival)) error {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		answer, err := open(ctx, client, base+"/api/v1/pop/queue/"+queue+"?wait=true")
		if err != nil {
			return ended(ctx, err)
		}
		var found struct{ Messages []arrival }
		if answer.StatusCode == http.StatusOK {
			err = json.NewDecoder(answer.Body).Decode(&found)
		}
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return ended(ctx, err)
		}
		for _, m := range found.Messages {
			m.at = time.Now()
			got(m)
		}
	}
	return nil
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// kinds are the two kinds of consumers.
var kinds = []struct {
	name string
	run  consume
}{{"long polls", poll}, {"streams", stream}}

// measureIdle counts the statements and the memory of idle consumers.
func measureIdle(ctx context.Context, r *suite, out *rig.Report) error {
	memory := map[string]float64{}
	for _, kind := range kinds {
		each, err := r.idle(ctx, kind.name, kind.run, out)
		if err != nil {
			return err
		}
		memory[kind.name] = each
	}
	ratio := memory["streams"] / memory["long polls"]
	out.Limit("stack and heap in use of a stream / of a long poll", fmt.Sprintf("%.2f", ratio), "<= 1.00", ratio <= 1)
	return nil
}

// idle returns the stacks and the heap in use per consumer, in KiB. Resident memory is not used, because it includes pages
// that Go has freed but not returned.
func (r *suite) idle(ctx context.Context, name string, run consume, out *rig.Report) (each float64, err error) {
	database, servers, err := r.cluster.Start(ctx, 1, quietly...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rig.StopAll(servers)) }()
	server := servers[0]
	if err := server.Configure(ctx, "idle", nil); err != nil {
		return 0, err
	}
	if err := load.Pause(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	before, err := memoryOf(ctx, server)
	if err != nil {
		return 0, err
	}
	waiting := load.NewWorkers(ctx)
	defer func() { err = errors.Join(err, waiting.Stop()) }()
	for range r.consumers {
		waiting.Go(func(ctx context.Context) error { return run(ctx, base(server), "idle", func(arrival) {}) })
	}
	if err := server.WaitWaiting(ctx, r.consumers); err != nil {
		return 0, err
	}
	if err := load.Pause(ctx, settle); err != nil {
		return 0, err
	}
	after, err := memoryOf(ctx, server)
	if err != nil {
		return 0, err
	}
	if err := rig.ResetStatements(ctx, r.admin, database); err != nil {
		return 0, err
	}
	if err := load.Pause(ctx, r.quiet); err != nil {
		return 0, err
	}
	n, list, err := r.counted(ctx, database)
	part := func(i int) float64 { return (after[i] - before[i]) / 1024 / float64(r.consumers) }
	out.Note(fmt.Sprintf("%d idle %s, KiB each: resident, stack, heap in use", r.consumers, name), fmt.Sprintf("%.1f, %.1f, %.1f", part(0), part(1), part(2)))
	out.Never(fmt.Sprintf("%d idle %s: statements in %s %s", r.consumers, name, r.quiet, list), n)
	return part(1) + part(2), err
}

// memoryOf returns three values of a server in bytes: the resident memory, the stacks and the heap in use.
func memoryOf(ctx context.Context, server *rig.Server) (m [3]float64, err error) {
	resident, err := server.Memory()
	if err != nil {
		return m, err
	}
	m[0] = float64(resident)
	var text bytes.Buffer
	if _, err := server.Do(ctx, http.MethodGet, server.URL("/metrics/prometheus"), nil, &text); err != nil {
		return m, err
	}
	for line := range strings.Lines(text.String()) {
		for i, name := range []string{"", "go_memstats_stack_inuse_bytes ", "go_memstats_heap_inuse_bytes "} {
			if value, ok := strings.CutPrefix(line, name); ok && i > 0 {
				if m[i], err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
					return m, err
				}
			}
		}
	}
	return m, nil
}

func base(server *rig.Server) string { return strings.TrimSuffix(server.URL("").String(), "/") }

// measureLatency times deliveries to one consumer. Long polls and streams alternate.
func measureLatency(ctx context.Context, r *suite, out *rig.Report) (err error) {
	_, servers, err := r.cluster.Start(ctx, 1, quietly...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.StopAll(servers)) }()
	times := map[string]*load.Times{}
	for turn := range 4 {
		kind := kinds[turn%2]
		if times[kind.name] == nil {
			times[kind.name] = load.NewTimes()
		}
		if err := r.deliver(ctx, servers[0], fmt.Sprint("timed-", turn), kind.run, times[kind.name]); err != nil {
			return err
		}
	}
	for _, kind := range kinds {
		l := times[kind.name].Latency(kind.name)
		out.Note(fmt.Sprintf("start of the push to the arrival of %d messages, %s: p50, p95, p99", l.Count, kind.name), fmt.Sprintf("%.2f, %.2f, %.2f ms", l.P50, l.P95, l.P99))
	}
	ratio := float64(times["streams"].Quantile(0.5)) / float64(times["long polls"].Quantile(0.5))
	out.Limit("p50 of streams / of long polls", fmt.Sprintf("%.2f", ratio), "<= 1.10", ratio <= 1.1)
	return nil
}

// deliver pushes messages one by one to a queue with one consumer. The consumer acknowledges each message.
func (r *suite) deliver(ctx context.Context, server *rig.Server, queue string, run consume, times *load.Times) (err error) {
	if err := server.Configure(ctx, queue, nil); err != nil {
		return err
	}
	arrived := make(chan arrival, 1)
	waiting := load.NewWorkers(ctx)
	defer func() { err = errors.Join(err, waiting.Stop()) }()
	waiting.Go(func(ctx context.Context) error {
		return run(ctx, base(server), queue, func(m arrival) {
			ack := map[string]any{"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": m.LeaseID}
			arrived <- m
			_, _ = server.Call(ctx, http.MethodPost, "/api/v1/ack", ack, nil) // a lost ack would stop the next message, and the test would fail
		})
	})
	if err := server.WaitWaiting(ctx, 1); err != nil {
		return err
	}
	for range r.messages / 2 {
		began := time.Now()
		push := map[string]any{"items": []any{map[string]any{"queue": queue, "payload": 1}}}
		if _, err := server.Call(ctx, http.MethodPost, "/api/v1/push", push, nil); err != nil {
			return err
		}
		select {
		case m := <-arrived:
			times.Add(m.at.Sub(began))
		case <-time.After(10 * time.Second):
			return errors.New("a message did not arrive")
		}
		if err := load.Pause(ctx, pushGap); err != nil {
			return err
		}
	}
	return nil
}

// measureWatchers counts the statements of a system with messages, for 0, 1 and 10 watchers at the other instance.
func measureWatchers(ctx context.Context, r *suite, out *rig.Report) (err error) {
	database, servers, err := r.cluster.Start(ctx, 2, quietly...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.StopAll(servers)) }()
	counts := map[int]int{}
	for _, n := range []int{0, 1, 10} {
		if counts[n], err = r.watched(ctx, database, servers, n, out); err != nil {
			return err
		}
	}
	cost := func(n int) int { return counts[n] - counts[0] }
	limit := cost(1) + cost(1)/10 + 2
	out.Limit(fmt.Sprintf("statements that 10 watchers add; 1 adds %d", cost(1)), fmt.Sprint(cost(10)), fmt.Sprint("<= ", limit), cost(10) <= limit)
	return nil
}

func (r *suite) watched(ctx context.Context, database string, servers []*rig.Server, n int, out *rig.Report) (busy int, err error) {
	watching := load.NewWorkers(ctx)
	defer func() { err = errors.Join(err, watching.Stop()) }()
	events := make(chan struct{}, 100_000)
	for range n {
		watching.Go(func(ctx context.Context) error {
			return watch(ctx, base(servers[0])+"/api/v1/events", func(string) error {
				events <- struct{}{}
				return nil
			})
		})
	}
	if err := load.Pause(ctx, 12*time.Second); err != nil { // the statements at the start end in this time
		return 0, err
	}
	if err := rig.ResetStatements(ctx, r.admin, database); err != nil {
		return 0, err
	}
	if err := load.Pause(ctx, r.quiet); err != nil {
		return 0, err
	}
	idle, list, err := r.counted(ctx, database)
	if err != nil {
		return 0, err
	}
	out.Never(fmt.Sprintf("%d watchers, idle: statements in %s %s", n, r.quiet, list), idle)
	if err := rig.ResetStatements(ctx, r.admin, database); err != nil {
		return 0, err
	}
	pacing := time.NewTicker(100 * time.Millisecond)
	defer pacing.Stop()
	for range int(r.quiet / (100 * time.Millisecond)) {
		<-pacing.C
		push := map[string]any{"items": []any{map[string]any{"queue": "watched", "payload": 1}}}
		if _, err := servers[1].Call(ctx, http.MethodPost, "/api/v1/push", push, nil); err != nil {
			return 0, err
		}
	}
	busy, list, err = r.counted(ctx, database)
	out.Note(fmt.Sprintf("%d watchers, 10 pushes a second at the other instance: statements in %s, events", n, r.quiet), fmt.Sprintf("%d, %d", busy, len(events)))
	out.Remark(fmt.Sprintf("the statements with %d watchers", n), list)
	return busy, err
}
