// Command client compares client.Consume with the pop and ack loop of belfry bench, in turns in one run.
//
//	go run ./test/bench/client
//	go run ./test/bench/client --messages 20000 --rounds 1
//
// Both consume a backlog in 100 partitions, with 16 pops at a time, 100 messages a pop and 10 partitions a pop. The loop of belfry
// bench has a client of its own and encodes by hand. The exit code is 1 if a message is missing, out of order or there
// twice, or if Consume does less than 90 % of the loop.
//
// The command starts a private Postgres and the server as a child process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	partitions    = 100
	connections   = 16
	popBatch      = 100
	popPartitions = 10
	pushBatch     = 500
	payloadSize   = 256
	lease         = time.Minute
	// least is the least part of the rate of the loop that Consume must reach.
	least = 0.9
	// limit bounds a round.
	limit = 2 * time.Minute
)

type settings struct{ messages, rounds int }

func main() {
	if code, ok := rig.RunChild(nil); ok {
		os.Exit(code)
	}
	var s settings
	flag.IntVar(&s.messages, "messages", 100_000, "messages of a round")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds of each kind")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "client: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "belfry-client-")
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
	if err := cluster.CreateDatabase(ctx, "client"); err != nil {
		return err
	}
	server, err := rig.StartServer(ctx, cluster.URL("client"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	return compare(ctx, server, s, out)
}

// compare runs the rounds and prints the rates.
func compare(ctx context.Context, server *rig.Server, s settings, out io.Writer) error {
	kinds := []struct {
		name    string
		consume func(context.Context, *rig.Server, *load.Traffic, string) error
	}{{"loop", loop}, {"Consume", consume}}
	rates := map[string][]float64{}
	for round := range s.rounds {
		for _, kind := range kinds {
			queue := fmt.Sprint(kind.name, round)
			traffic, err := fill(ctx, server, queue, s.messages)
			if err != nil {
				return err
			}
			begun := time.Now()
			timed, cancel := context.WithTimeout(ctx, limit)
			err = kind.consume(timed, server, traffic, queue)
			cancel()
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			rate := float64(s.messages) / time.Since(begun).Seconds()
			rates[kind.name] = append(rates[kind.name], rate)
			_, _ = fmt.Fprintf(out, "round %d: %-8s %8.0f messages/s\n", round+1, kind.name, rate)
		}
	}
	ratio := median(rates["Consume"]) / median(rates["loop"])
	_, _ = fmt.Fprintf(out, "Consume/loop: %.2f (at least %.2f)\n", ratio, least)
	if ratio < least {
		return errors.New("the client is too slow")
	}
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// fill pushes the backlog of a round.
func fill(ctx context.Context, server *rig.Server, queue string, messages int) (*load.Traffic, error) {
	lanes := make([]load.Lane, partitions)
	for i := range lanes {
		lanes[i] = load.Lane{Queue: queue, Partition: fmt.Sprint(i)}
	}
	t := &load.Traffic{
		Client: server.Client, Meter: load.NewMeter(), Groups: []string{""}, PayloadSize: payloadSize,
		Ledger: load.NewLedger(load.LedgerConfig{Lanes: lanes, Groups: 1, Lease: lease}),
	}
	producer := t.NewProducers(1, pushBatch, partitions)[0]
	for range messages / pushBatch {
		if _, err := producer.Push(ctx, time.Now()); err != nil {
			return nil, fmt.Errorf("pushing: %w", err)
		}
	}
	return t, nil
}

// loop consumes the backlog as belfry bench does.
func loop(ctx context.Context, _ *rig.Server, t *load.Traffic, queue string) error {
	workers := load.NewWorkers(ctx)
	for range connections {
		consumer := t.NewConsumer(load.PopOptions{Queue: queue, Batch: popBatch, Partitions: popPartitions, Eager: true})
		workers.Go(consumer.Loop)
	}
	drained, err := t.Ledger.WaitDrained(ctx, limit)
	counts := t.Ledger.Counts()
	if err == nil && (!drained || counts.Disordered+counts.Duplicates+counts.Lost > 0) {
		err = fmt.Errorf("the messages did not arrive as they should: %+v", counts)
	}
	return errors.Join(err, workers.Stop(), rig.Failures(t.Meter))
}

// consume consumes the backlog with the client.
func consume(ctx context.Context, server *rig.Server, t *load.Traffic, queue string) error {
	c, err := client.New(client.Config{URLs: []string{server.URL("").String()}})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var wrong error
	next, left := make([]int, partitions+1), t.Ledger.Counts().Pushed
	err = client.Consume(ctx, c, client.ConsumeOptions{
		Queue: queue, Concurrency: connections, Batch: popBatch, Partitions: popPartitions,
	}, func(_ context.Context, m *client.Message[load.Payload]) error {
		mu.Lock()
		defer mu.Unlock()
		next[m.Data.Lane]++
		if next[m.Data.Lane] != m.Data.N {
			wrong = fmt.Errorf("partition %d: got message %d instead of %d", m.Data.Lane, m.Data.N, next[m.Data.Lane])
		}
		left--
		if left == 0 || wrong != nil {
			stop()
		}
		return nil
	})
	if err == nil && left != 0 {
		err = fmt.Errorf("%d messages are missing", left)
	}
	return errors.Join(err, wrong)
}
