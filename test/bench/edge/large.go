package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	inflightBytes = 2 << 20
	// inflightBudget is the default of http.max_inflight_bytes, in bytes.
	inflightBudget = 256 << 20
	bigMessage     = 1 << 20
	// bigBatch is the number of messages in a push that fits into http.max_body_bytes.
	bigBatch     = 10
	bigPopMemory = 200 << 20
)

// measureInflight sends many large pushes at the same time. The memory may grow by at most 1.25 times
// http.max_inflight_bytes. A push must be answered with 201 and stored once, or be answered with 503 and stored at most
// once.
func measureInflight(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if _, err := t.timePushes(ctx, t.quiet/10, "others", one); err != nil { // fills caches
		return err
	}
	before, err := t.Memory()
	if err != nil {
		return err
	}
	end := t.watchMemory(ctx)
	payload := `"` + strings.Repeat("x", inflightBytes) + `"`
	statuses, failures := make([]int, t.pushes), make([]error, t.pushes)
	var all sync.WaitGroup
	for i := range t.pushes {
		all.Go(func() { statuses[i], failures[i] = t.pushLarge(ctx, i, payload) })
	}
	all.Wait()
	grown := end() - before
	stored, err := t.storedTimes(ctx, t.pushes)
	if err != nil {
		return err
	}
	var created, refused, other, lost, twice int
	var strange error
	for i, status := range statuses {
		switch status {
		case http.StatusCreated:
			created++
			if stored[i] == 0 {
				lost++
			}
		case http.StatusServiceUnavailable:
			refused++
		default:
			other++
			strange = failures[i]
		}
		if stored[i] > 1 {
			twice++
		}
	}
	out.Memory(fmt.Sprintf("%d pushes of 2 MiB: growth of the memory", t.pushes), grown, inflightBudget*5/4)
	out.Note("answered with 201, with 503", fmt.Sprintf("%d, %d", created, refused))
	out.Never("other answers, or no answer", other)
	if strange != nil {
		out.Note("such as", strange.Error())
	}
	out.Never("lost", lost)
	out.Never("stored twice", twice)
	return nil
}

// pushLarge returns the status of the answer, or 0 if there is no answer.
func (t *trial) pushLarge(ctx context.Context, n int, payload string) (int, error) {
	var text bytes.Buffer
	text.Grow(len(payload) + 200)
	fmt.Fprintf(&text, `{"items":[{"queue":"large","partition":"%d","transactionId":"%d","payload":%s}]}`, n, n, payload)
	var answer bytes.Buffer
	resp, err := t.Do(ctx, http.MethodPost, t.URL("/api/v1/push"), text.Bytes(), &answer)
	return resp.Status, err
}

// storedTimes returns for each transaction id from 0 to n-1 how many messages have it.
func (t *trial) storedTimes(ctx context.Context, n int) ([]int, error) {
	rows, err := t.conn.Query(ctx, `SELECT m.transaction_id::int, count(*)::int FROM belfry.message m
		JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id
		WHERE q.name = 'large' GROUP BY 1`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stored := make([]int, n)
	for rows.Next() {
		var id, count int
		if err := rows.Scan(&id, &count); err != nil {
			return nil, err
		}
		stored[id] = count
	}
	return stored, rows.Err()
}

// measureBigPop pops a queue of large messages with the largest batch.
func measureBigPop(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.pushBig(ctx, t.messages); err != nil {
		return err
	}
	if err := t.restart(ctx); err != nil { // so that the memory of the pushes is not counted
		return err
	}
	end := t.watchMemory(ctx)
	largest, next, disordered, pops, err := t.popAll(ctx)
	most := end()
	if err != nil {
		return err
	}
	limit := config.Default().HTTP.MaxResponseBytes
	out.Memory(fmt.Sprintf("%d messages of 1 MiB, batch=10000: largest of %d answers", t.messages, pops), largest, limit)
	out.Memory("memory of the server", most, bigPopMemory)
	out.Never("missing", t.messages-next)
	out.Never("out of order or twice", disordered)
	return nil
}

// popAll pops the queue big until it is empty. next is the number of messages that arrived in order.
func (t *trial) popAll(ctx context.Context) (largest int64, next, disordered, pops int, err error) {
	target := t.URL("/api/v1/pop/queue/big")
	target.RawQuery = "batch=10000&autoAck=true"
	var text bytes.Buffer
	for {
		if _, err := t.Do(ctx, http.MethodGet, target, nil, &text); err != nil {
			return 0, 0, 0, 0, err
		}
		if text.Len() == 0 {
			return largest, next, disordered, pops, nil
		}
		pops++
		largest = max(largest, int64(text.Len()))
		var d struct {
			Messages []struct {
				TransactionID string `json:"transactionId"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(text.Bytes(), &d); err != nil {
			return 0, 0, 0, 0, fmt.Errorf("decoding a delivery: %w", err)
		}
		for _, m := range d.Messages {
			if m.TransactionID == fmt.Sprint(next) {
				next++
			} else {
				disordered++
			}
		}
	}
}
