package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// memoryInterval is the time between two readings of the memory of a server.
	memoryInterval = 10 * time.Millisecond
	// pushInterval is the time between the starts of two timed pushes.
	pushInterval = 10 * time.Millisecond
)

// suite is shared by all measures.
type suite struct {
	settings
	cluster *rig.Cluster
}

func newSuite(ctx context.Context, s settings) (r *suite, err error) {
	r = &suite{settings: s}
	r.cluster, err = rig.StartCluster(ctx, map[string]string{"shared_buffers": "256MB", "max_wal_size": "8GB"})
	return r, err
}

// trial is a server on a new database.
type trial struct {
	*suite
	*rig.Server
	dsn  string
	conn *pgx.Conn
}

// start starts a server on a new database. The caller must close the trial.
func (r *suite) start(ctx context.Context) (t *trial, err error) {
	name, err := r.cluster.NewDatabase(ctx)
	if err != nil {
		return nil, err
	}
	t = &trial{suite: r, dsn: r.cluster.URL(name)}
	if t.Server, err = rig.StartServer(ctx, t.dsn); err != nil {
		return nil, err
	}
	if t.conn, err = pgx.Connect(ctx, t.dsn); err != nil {
		return nil, errors.Join(err, t.Stop())
	}
	return t, nil
}

// restart stops the server and starts another one.
func (t *trial) restart(ctx context.Context) error {
	if err := t.Stop(); err != nil {
		return err
	}
	server, err := rig.StartServer(ctx, t.dsn)
	t.Server = server
	return err
}

func (t *trial) close() error {
	err := t.conn.Close(context.Background())
	if t.Server != nil {
		err = errors.Join(err, t.Stop())
	}
	return err
}

// push pushes one item. The payload is JSON.
func (t *trial) push(ctx context.Context, queue, partition, payload string) error {
	body := fmt.Sprintf(`{"items":[{"queue":%q,"partition":%q,"payload":%s}]}`, queue, partition, payload)
	_, err := t.Call(ctx, http.MethodPost, "/api/v1/push", jsontext.Value(body), nil)
	return err
}

// timing has the times of pushes, and the number of pushes that failed.
type timing struct {
	*load.Times
	failed int
	// example is the error of a push that failed.
	example error
}

// timePushes pushes at a constant rate for the time d and returns the time of each push. The time counts from the planned
// start of the push. partition returns the partition of the nth push.
func (t *trial) timePushes(ctx context.Context, d time.Duration, queue string, partition func(n int) string) (timing, error) {
	times := timing{Times: load.NewTimes()}
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n) * pushInterval)
		if due.Sub(began) >= d {
			break
		}
		if load.Pause(ctx, time.Until(due)) != nil {
			break
		}
		all.Go(func() {
			err := t.push(ctx, queue, partition(n), "1")
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				times.failed, times.example = times.failed+1, err
				return
			}
			times.Add(took)
		})
	}
	all.Wait()
	return times, ctx.Err()
}

func one(int) string { return "Default" }

// watchMemory watches the resident memory of the server. The returned function ends the watch and returns the largest
// value.
func (t *trial) watchMemory(ctx context.Context) (end func() int64) {
	ctx, cancel := context.WithCancel(ctx)
	process, done, most := t.Process, make(chan struct{}), int64(0)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if now, err := process.Memory(); err == nil {
				most = max(most, now)
			}
			_ = load.Pause(ctx, memoryInterval)
		}
	}()
	return func() int64 {
		cancel()
		<-done
		return most
	}
}

// number runs a query that returns one number.
func (t *trial) number(ctx context.Context, query string, args ...any) (n int, err error) {
	err = t.conn.QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}
