package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// rawTable has the columns and the unique index of belfry.message.
const rawTable = `
DROP TABLE IF EXISTS bench_raw;
CREATE TABLE bench_raw (
    partition_id bigint NOT NULL, seq bigint GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL DEFAULT now(),
    visible_at timestamptz, id uuid NOT NULL, trace_id uuid, encrypted boolean NOT NULL DEFAULT false,
    transaction_id text NOT NULL, producer_sub text, payload json NOT NULL, UNIQUE (partition_id, transaction_id))`

// measureRaw returns rows/s of the plainest INSERT: one statement a batch.
func measureRaw(ctx context.Context, s settings, pool *pgxpool.Pool, batch int) (float64, error) {
	if _, err := pool.Exec(ctx, rawTable); err != nil {
		return 0, err
	}
	const insert = `INSERT INTO bench_raw (partition_id, id, transaction_id, payload)
		SELECT i.partition_id, i.id, i.transaction_id, i.payload::json
		  FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[]) AS i(partition_id, id, transaction_id, payload)`
	payload := payloadOf(s.payload, 0)
	return rate(ctx, s, func(ctx context.Context, worker int) (int, error) {
		partitions, ids := make([]int64, batch), make([][16]byte, batch)
		transactions, payloads := make([]string, batch), make([]string, batch)
		for i := range batch {
			partitions[i], ids[i] = int64(worker*batch+i)%int64(s.partitions), uuid.Must(uuid.NewV7())
			transactions[i], payloads[i] = uuid.NewString(), payload
		}
		_, err := pool.Exec(ctx, insert, partitions, ids, transactions, payloads)
		return batch, err
	})
}

// rate runs work on every connection until the time is up and returns how much
// it did a second.
func rate(ctx context.Context, s settings, work func(ctx context.Context, worker int) (int, error)) (float64, error) {
	var total atomic.Int64
	started := time.Now()
	deadline := started.Add(s.duration)
	workers, ctx := errgroup.WithContext(ctx)
	for worker := range s.connections {
		workers.Go(func() error {
			for time.Now().Before(deadline) {
				n, err := work(ctx, worker)
				if err != nil {
					return err
				}
				total.Add(int64(n))
			}
			return nil
		})
	}
	err := workers.Wait()
	return float64(total.Load()) / time.Since(started).Seconds(), err
}

func payloadOf(size, n int) string {
	return fmt.Sprintf(`{"n":%d,"pad":%q}`, n, strings.Repeat("x", max(0, size-20)))
}

// bench is one batch size: a queue of its own, and what was pushed to it.
type bench struct {
	settings
	base   string
	queue  string
	batch  int
	client *http.Client

	// next is, by partition, the number of the next message; a partition is
	// pushed to by one worker.
	next []int
	mu   sync.Mutex
	// seen is, by partition, the number of the last message popped.
	seen map[string]int
}

func newBench(s settings, base string, batch int) *bench {
	b := &bench{settings: s, base: base, batch: batch, queue: fmt.Sprintf("bench-%d", batch),
		next: make([]int, s.partitions), seen: map[string]int{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.connections}}}
	return b
}

// measurePush returns messages/s over HTTP. Each worker has its own partitions,
// so that the order within one is known.
func (b *bench) measurePush(ctx context.Context) (float64, error) {
	turn := make([]int, b.connections)
	return rate(ctx, b.settings, func(ctx context.Context, worker int) (int, error) {
		body := bytes.NewBufferString(`{"items":[`)
		for i := range b.batch {
			partition := (turn[worker]*b.connections + worker) % b.partitions
			if b.partitions < b.connections {
				return 0, errors.New("fewer partitions than connections: the order could not be checked")
			}
			// Partitions of a worker: those congruent to it.
			partition -= partition % b.connections
			if partition += worker; partition >= b.partitions {
				partition = worker
			}
			turn[worker]++
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(body, `{"queue":%q,"partition":"p%d","payload":%s}`, b.queue, partition, payloadOf(b.payload, b.next[partition]))
			b.next[partition]++
		}
		body.WriteString(`]}`)
		return b.batch, b.call(ctx, "/api/v1/push", body, http.StatusCreated, nil)
	})
}

type popped struct {
	LeaseID  string `json:"leaseId"`
	Messages []struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
		Partition     string `json:"partition"`
		Data          struct {
			N int `json:"n"`
		} `json:"data"`
	} `json:"messages"`
}

// measurePopAck drains what was pushed (for the given time, then the rest
// unmeasured) and checks completeness and order.
func (b *bench) measurePopAck(ctx context.Context) (float64, error) {
	figure, err := rate(ctx, b.settings, b.popAck)
	if err != nil {
		return 0, err
	}
	for n := 1; n > 0 && err == nil; {
		n, err = b.popAck(ctx, 0)
	}
	if err != nil {
		return 0, err
	}
	for partition, pushed := range b.next {
		if seen := b.seen[fmt.Sprintf("p%d", partition)]; seen != pushed {
			return 0, fmt.Errorf("partition p%d: %d messages pushed, %d popped", partition, pushed, seen)
		}
	}
	return figure, nil
}

func (b *bench) popAck(ctx context.Context, _ int) (int, error) {
	var got popped
	partitions := min(b.batch, 10)
	url := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&partitions=%d", b.queue, b.batch, partitions)
	if err := b.call(ctx, url, nil, http.StatusOK, &got); err != nil || len(got.Messages) == 0 {
		return 0, err
	}
	b.mu.Lock()
	for _, m := range got.Messages {
		if m.Data.N != b.seen[m.Partition] {
			b.mu.Unlock()
			return 0, fmt.Errorf("partition %s: got message %d where %d was next", m.Partition, m.Data.N, b.seen[m.Partition])
		}
		b.seen[m.Partition]++
	}
	b.mu.Unlock()
	body := bytes.NewBufferString(`{"acknowledgments":[`)
	for i, m := range got.Messages {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(body, `{"transactionId":%q,"partitionId":%q,"leaseId":%q}`, m.TransactionID, m.PartitionID, got.LeaseID)
	}
	body.WriteString(`]}`)
	return len(got.Messages), b.call(ctx, "/api/v1/ack/batch", body, http.StatusOK, nil)
}

// call sends a request; an answer that is neither wanted nor 204 is an error.
func (b *bench) call(ctx context.Context, path string, body io.Reader, want int, into any) error {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, b.base+path, body)
	if err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if resp.StatusCode != want {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s answered %s: %s", path, resp.Status, text)
	}
	if into != nil {
		return json.NewDecoder(resp.Body).Decode(into)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
