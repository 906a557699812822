// Command streams compares the cycles of a stream with transactions, in turns in one run.
//
//	go run ./test/bench/streams
//	go run ./test/bench/streams --messages 20000 --rounds 1
//
// Both sum the numbers of windows of 15 messages, in 50 partitions, with 200 messages a batch. The cycles keep an open window
// as state: they pop, read the state, and make a cycle with state, sums and ack. The transactions keep an open window in the
// memory of their worker: they pop, and make a transaction with the same pushes and ack. Each sum is checked. The exit code
// is 1 if a sum is wrong, or if the cycles do less than 60 % of the transactions.
//
// The command starts a private Postgres and the server as a child process.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	partitions = 50
	batch      = 200
	windowSize = 15
	// least is the least part of the rate of the transactions that the cycles must reach.
	least = 0.6
)

type settings struct{ messages, rounds, workers int }

func main() {
	if code, ok := rig.RunChild(nil); ok {
		os.Exit(code)
	}
	var s settings
	flag.IntVar(&s.messages, "messages", 100_000, "messages of a round")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds of each kind")
	flag.IntVar(&s.workers, "workers", 4, "workers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "streams: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "belfry-streams-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Root runs Postgres under another account, which must be able to enter the folder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return fmt.Errorf("opening the folder: %w", err)
	}
	cluster, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "cluster"), Log: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	if err := cluster.CreateDatabase(ctx, "streams"); err != nil {
		return err
	}
	server, err := rig.StartServer(ctx, cluster.URL("streams"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	rates := map[bool][]float64{}
	for round := range 2 * s.rounds {
		r := trial{Server: server, settings: s, cycles: round%2 == 1, queue: fmt.Sprint("numbers.", round), out: fmt.Sprint("sums.", round)}
		rate, err := r.run(ctx)
		if err != nil {
			return err
		}
		rates[r.cycles] = append(rates[r.cycles], rate)
		_, _ = fmt.Fprintf(out, "round %d: %-12s %8.0f messages/s\n", round/2+1, r.kind(), rate)
	}
	ratio := median(rates[true]) / median(rates[false])
	_, _ = fmt.Fprintf(out, "cycles/transactions: %.2f (at least %.2f)\n", ratio, least)
	if ratio < least {
		return errors.New("the cycles are too slow")
	}
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// trial is one round.
type trial struct {
	*rig.Server
	settings
	cycles       bool
	queue, out   string
	query, group string
	done, sum    atomic.Int64
	mu           sync.Mutex
	kept         map[string]window // open windows of the transactions, by partition
}

// window is an open window, or the message with its sum.
type window struct {
	Window int64 `json:"window"`
	Sum    int64 `json:"sum"`
	Count  int64 `json:"count"`
}

func (r *trial) kind() string {
	if r.cycles {
		return "cycles"
	}
	return "transactions"
}

type object = map[string]any

func (r *trial) post(ctx context.Context, path string, body, into any) error {
	_, err := r.Call(ctx, http.MethodPost, path, body, into)
	return err
}

// run fills the queue, lets the workers sum it, and returns the messages per second.
func (r *trial) run(ctx context.Context) (rate float64, err error) {
	r.kept, r.group = map[string]window{}, "sums"
	if r.cycles {
		var registered struct {
			QueryID string `json:"query_id"`
		}
		if err := r.post(ctx, "/streams/v1/queries", object{"name": "sums", "source_queue": r.queue, "config_hash": "1"}, &registered); err != nil {
			return 0, err
		}
		r.query, r.group = registered.QueryID, "streams."+registered.QueryID
	}
	each := r.messages / partitions / windowSize * windowSize
	for p := range partitions {
		for first := 0; first < each; first += 1000 {
			items := make([]object, min(1000, each-first))
			for i := range items {
				items[i] = object{"queue": r.queue, "partition": fmt.Sprint("p", p), "payload": first + i}
			}
			if err := r.post(ctx, "/api/v1/push", object{"items": items}, nil); err != nil {
				return 0, err
			}
		}
	}
	begun := time.Now()
	var workers sync.WaitGroup
	failures := make(chan error, r.workers)
	for range r.workers {
		workers.Go(func() {
			for r.done.Load() < int64(partitions*each) {
				if err := r.step(ctx); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(failures)
	for failed := range failures {
		err = errors.Join(err, failed)
	}
	took := time.Since(begun)
	if want := int64(partitions * each * (each - 1) / 2); err == nil && r.sum.Load() != want {
		err = fmt.Errorf("%s: the sums are %d together, and should be %d", r.kind(), r.sum.Load(), want)
	}
	return float64(partitions*each) / took.Seconds(), err
}

type delivery struct {
	Partition   string `json:"partition"`
	PartitionID string `json:"partitionId"`
	LeaseID     string `json:"leaseId"`
	Messages    []struct {
		TransactionID string `json:"transactionId"`
		Data          int64  `json:"data"`
	} `json:"messages"`
}

// step handles one batch.
func (r *trial) step(ctx context.Context) error {
	var d delivery
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&wait=true&timeout=100&consumerGroup=%s", r.queue, batch, r.group)
	response, err := r.Call(ctx, http.MethodGet, path, nil, &d)
	if err != nil || response.Status == http.StatusNoContent {
		return err
	}
	open, err := r.open(ctx, &d)
	if err != nil {
		return err
	}
	var items []object
	for _, m := range d.Messages {
		open.Window, open.Sum, open.Count = m.Data/windowSize, open.Sum+m.Data, open.Count+1
		if open.Count == windowSize {
			items = append(items, object{"queue": r.out, "partition": d.Partition, "payload": open})
			r.sum.Add(open.Sum)
			open = window{}
		}
	}
	if err := r.commit(ctx, &d, items, open); err != nil {
		return err
	}
	r.done.Add(int64(len(d.Messages)))
	return nil
}

// open returns the open window of the partition of a delivery.
func (r *trial) open(ctx context.Context, d *delivery) (open window, err error) {
	if !r.cycles {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.kept[d.Partition], nil
	}
	var state struct {
		Rows []struct {
			Value window `json:"value"`
		} `json:"rows"`
	}
	err = r.post(ctx, "/streams/v1/state/get", object{"query_id": r.query, "partition_id": d.PartitionID, "keys": []string{"open"}}, &state)
	if err == nil && len(state.Rows) > 0 {
		open = state.Rows[0].Value
	}
	return open, err
}

// commit pushes sums, keeps the open window and acknowledges the delivery.
func (r *trial) commit(ctx context.Context, d *delivery, items []object, open window) error {
	last := d.Messages[len(d.Messages)-1].TransactionID
	var answer struct {
		Success bool            `json:"success"`
		Error   json.RawMessage `json:"error"`
	}
	var err error
	if r.cycles {
		err = r.post(ctx, "/streams/v1/cycle", object{
			"query_id": r.query, "partition_id": d.PartitionID, "consumer_group": r.group, "push_items": items,
			"state_ops": []object{{"type": "upsert", "key": "open", "value": open}},
			"ack":       object{"transactionId": last, "leaseId": d.LeaseID, "count": len(d.Messages)},
		}, &answer)
	} else {
		r.mu.Lock()
		r.kept[d.Partition] = open
		r.mu.Unlock()
		err = r.post(ctx, "/api/v1/transaction", object{"operations": []object{
			{"type": "push", "items": items},
			{"type": "ack", "transactionId": last, "partitionId": d.PartitionID, "consumerGroup": r.group, "leaseId": d.LeaseID},
		}}, &answer)
	}
	if err == nil && !answer.Success {
		err = fmt.Errorf("%s: a batch was not applied: %s", r.kind(), answer.Error)
	}
	return err
}
