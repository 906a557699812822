// Command spool measures pushes during push maintenance, and checks that none is lost over a kill.
//
//	go run ./test/bench/spool
//	go run ./test/bench/spool --messages 20000
//
// Workers push to partitions of their own, with 100 messages a push. Halfway the server is killed (SIGKILL) and started again
// on the same directory; a push without an answer is sent again. The rate is that of the first half. Then maintenance ends,
// and all messages are received: each once, in the order of its partition. The exit code is 1 if one is missing, doubled or
// out of order, or if fewer than 20,000 messages/s reach the spool.
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
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	batch = 100
	// least is how many messages per second must reach the spool.
	least = 20_000
	// poll is how often the end of the drain is looked for.
	poll = 20 * time.Millisecond
)

var padding = strings.Repeat("x", 180)

type settings struct{ messages, workers int }

func main() {
	if code, ok := rig.RunChild(nil); ok {
		os.Exit(code)
	}
	var s settings
	flag.IntVar(&s.messages, "messages", 100_000, "messages in all")
	flag.IntVar(&s.workers, "workers", 8, "workers that push")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s, os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "spool: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "belfry-spool-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Root runs Postgres under another account, which must be able to enter the folder.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // see above
		return fmt.Errorf("opening the folder: %w", err)
	}
	cluster, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "cluster"), Log: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	if err := cluster.CreateDatabase(ctx, "spool"); err != nil {
		return err
	}
	r := &trial{settings: s, out: out, sent: make([]int, s.workers), start: func() (*rig.Server, error) {
		return rig.StartServer(ctx, cluster.URL("spool"), "BELFRY_SPOOL_DIR="+filepath.Join(dir, "spool"))
	}}
	if r.server, err = r.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.Stop()) }()
	return r.run(ctx)
}

// trial is one run.
type trial struct {
	settings
	out    io.Writer
	start  func() (*rig.Server, error)
	server *rig.Server
	// sent is how many messages each worker has pushed.
	sent []int
}

type object = map[string]any

func (r *trial) run(ctx context.Context) error {
	if err := r.maintenance(ctx, true); err != nil {
		return err
	}
	began := time.Now()
	if err := r.pushTo(ctx, r.messages/2, nil); err != nil {
		return err
	}
	rate := float64(r.messages/2) / time.Since(began).Seconds()
	_, _ = fmt.Fprintf(r.out, "into the spool: %.0f messages/s (at least %d)\n", rate, least)
	if err := r.killAndGoOn(ctx); err != nil {
		return err
	}
	if err := r.maintenance(ctx, false); err != nil {
		return err
	}
	began = time.Now()
	if err := r.untilStored(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.out, "out of it: %.0f messages/s\n", float64(r.messages)/time.Since(began).Seconds())
	if err := r.receive(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.out, "received: %d messages over a kill, each once and in order\n", r.messages)
	if rate < least {
		return errors.New("the spool is too slow")
	}
	return nil
}

// untilStored waits until the spool is empty.
func (r *trial) untilStored(ctx context.Context) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if left, err := r.pending(ctx); err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// killAndGoOn pushes the second half. Its server is killed meanwhile.
func (r *trial) killAndGoOn(ctx context.Context) error {
	failed, pushed := make(chan string, r.workers), make(chan error, 1)
	restarted := make(chan struct{})
	go func() {
		pushed <- r.pushTo(ctx, r.messages, func(err error) {
			failed <- err.Error()
			<-restarted
		})
	}()
	defer close(restarted)
	for held := 0; held < r.messages*5/8; {
		var err error
		if held, err = r.pending(ctx); err != nil {
			return err
		}
		select {
		case why := <-failed:
			return errors.New("before the kill: " + why)
		case err := <-pushed:
			return fmt.Errorf("all was pushed before the kill, and %d are held: %w", held, err)
		default:
		}
	}
	if err := r.server.Kill(); err != nil {
		return err
	}
	for range r.workers {
		select {
		case <-failed:
		case err := <-pushed:
			return errors.Join(errors.New("all was pushed before the kill"), err)
		}
	}
	var err error
	if r.server, err = r.start(); err != nil {
		return err
	}
	for range r.workers {
		restarted <- struct{}{}
	}
	return <-pushed
}

// pending returns the number of messages in the spool.
func (r *trial) pending(ctx context.Context) (int, error) {
	var held struct {
		Pending *int `json:"pending"`
	}
	if err := r.call(ctx, http.MethodGet, "/api/v1/status/buffers", nil, &held); err != nil {
		return 0, err
	}
	if held.Pending == nil {
		return 0, errors.New("the answer says nothing of pending messages")
	}
	return *held.Pending, nil
}

// pushTo pushes until all workers together have sent n messages. A push that fails is sent again after repair.
func (r *trial) pushTo(ctx context.Context, n int, repair func(error)) error {
	errs := make([]error, r.workers)
	var working sync.WaitGroup
	for w := range r.workers {
		working.Go(func() {
			for r.sent[w] < n/r.workers && errs[w] == nil {
				items := make([]object, batch)
				for i := range items {
					id := fmt.Sprint(r.sent[w] + i)
					items[i] = object{"queue": "orders", "partition": fmt.Sprint(w), "transactionId": id, "payload": object{"n": r.sent[w] + i, "text": padding}}
				}
				err := r.call(ctx, http.MethodPost, "/api/v1/push", object{"items": items}, nil)
				if err != nil && repair != nil && ctx.Err() == nil {
					repair(err)
					continue
				}
				errs[w] = err
				r.sent[w] += batch
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

// receive pops everything and checks it.
func (r *trial) receive(ctx context.Context) error {
	next := make([]int, r.workers)
	for {
		var d struct {
			Messages []struct {
				Partition string          `json:"partition"`
				Data      json.RawMessage `json:"data"`
			} `json:"messages"`
		}
		if err := r.call(ctx, http.MethodGet, "/api/v1/pop/queue/orders?batch=1000&autoAck=true", nil, &d); err != nil {
			return err
		}
		if len(d.Messages) == 0 {
			break
		}
		for _, m := range d.Messages {
			var partition int
			var payload struct {
				N int `json:"n"`
			}
			if _, err := fmt.Sscan(m.Partition, &partition); err != nil {
				return fmt.Errorf("reading a partition: %w", err)
			}
			if err := json.Unmarshal(m.Data, &payload); err != nil {
				return fmt.Errorf("reading a message: %w", err)
			}
			if payload.N != next[partition] {
				return fmt.Errorf("partition %d: received %d instead of %d", partition, payload.N, next[partition])
			}
			next[partition]++
		}
	}
	for w := range next {
		if next[w] != r.sent[w] {
			return fmt.Errorf("partition %d: received %d of %d", w, next[w], r.sent[w])
		}
	}
	return nil
}

func (r *trial) maintenance(ctx context.Context, on bool) error {
	return r.call(ctx, http.MethodPost, "/api/v1/system/maintenance", object{"enabled": on}, nil)
}

func (r *trial) call(ctx context.Context, method, path string, body, into any) error {
	got, err := r.server.Call(ctx, method, path, body, into)
	if err == nil && got.Status >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: status %d", method, path, got.Status)
	}
	return err
}
