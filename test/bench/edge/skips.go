package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	skipRounds = 300
	// skipRatio is the limit for a ratio of two medians. A smaller ratio is noise.
	skipRatio = 1.5
	// skipBatch is the number of dead letters that one call makes. A pop takes at most one message more.
	skipBatch = 9999
	// skipSpare is the number of messages after the skipped ones.
	skipSpare = 2 * skipRounds
)

// sqlSkipped adds $2 messages after the first message of queue $1. Group g skips all of them except the last $3.
const sqlSkipped = `WITH part AS (
		UPDATE belfry.partition p SET last_seq = 1 + $2::bigint, last_push_at = clock_timestamp()
		  FROM belfry.queue q WHERE q.id = p.queue_id AND q.name = $1 RETURNING p.id
	), message AS (
		INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, n, clock_timestamp(), gen_random_uuid(), 'm' || n, '{}' FROM part p, generate_series(2, 1 + $2::bigint) n
	), dead AS (
		INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts)
		SELECT c.partition_id, n, c.group_id, 0 FROM part p JOIN belfry.cursor c ON c.partition_id = p.id, generate_series(2, 1 + $2::bigint - $3::bigint) n
	)
	UPDATE belfry.cursor c SET skip = nullif(int8multirange(int8range(2, 2 + $2::bigint - $3::bigint)), '{}') FROM part p WHERE c.partition_id = p.id`

// skipped is a partition with an unfinished message that is followed by many dead letters.
type skipped struct {
	*trial
	queue string
	// next is the number of the message that becomes a dead letter next.
	next            int
	pop, again, dlq *load.Times
}

// popped is the part of an answer to a pop that the measure uses.
type popped struct {
	Messages []ackItem `json:"messages"`
}

// ackItem names a message. An answer to a pop contains it. With a status it is also an ack.
type ackItem struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	LeaseID       string `json:"leaseId,omitempty"`
	Status        string `json:"status,omitempty"`
}

// measureSkips compares 10 and 1,000,000 dead letters after an unfinished message. Then one call makes 9,999 dead letters
// while another client acknowledges.
func measureSkips(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	few, err := t.skip(ctx, "few", 10, skipSpare)
	if err != nil {
		return err
	}
	many, err := t.skip(ctx, "many", t.skips, skipSpare)
	if err != nil {
		return err
	}
	if _, err := t.conn.Exec(ctx, "VACUUM ANALYZE belfry.message, belfry.dead_letter"); err != nil {
		return err
	}
	for range skipRounds {
		if err := errors.Join(few.round(ctx), many.round(ctx)); err != nil {
			return err
		}
	}
	of := fmt.Sprintf("with %d skipped messages instead of 10: ", t.skips)
	out.Ratio(of+"a pop, p50", many.pop.Quantile(0.5), few.pop.Quantile(0.5), skipRatio)
	out.Ratio(of+"a retry, p50", many.again.Quantile(0.5), few.again.Quantile(0.5), skipRatio)
	out.Ratio(of+"a dead letter, p50", many.dlq.Quantile(0.5), few.dlq.Quantile(0.5), skipRatio)
	return t.deadBatch(ctx, out)
}

// skip creates a queue with three parts: a message that group g has not finished, n messages that it skips, and spare other
// messages.
func (t *trial) skip(ctx context.Context, queue string, n, spare int) (*skipped, error) {
	s := &skipped{trial: t, queue: queue, next: n + 2, pop: load.NewTimes(), again: load.NewTimes(), dlq: load.NewTimes()}
	if err := t.push(ctx, queue, "Default", "1"); err != nil {
		return nil, err
	}
	got, err := s.take(ctx, 1)
	if err != nil {
		return nil, err
	}
	if _, err := t.conn.Exec(ctx, sqlSkipped, queue, n+spare, spare); err != nil {
		return nil, fmt.Errorf("adding messages: %w", err)
	}
	return s, s.ack(ctx, got, "retry")
}

// round pops the first message, makes the first message after the skipped ones a dead letter, and returns the popped
// message with a retry.
func (s *skipped) round(ctx context.Context) error {
	began := time.Now()
	got, err := s.take(ctx, 10)
	if err != nil {
		return err
	}
	s.pop.Add(time.Since(began))
	if len(got) != 1 {
		return fmt.Errorf("a pop of %s returned %d messages, but must return only the first", s.queue, len(got))
	}
	dead := []ackItem{{TransactionID: fmt.Sprint("m", s.next), PartitionID: got[0].PartitionID}}
	s.next++
	began = time.Now()
	if err := s.ack(ctx, dead, "dlq"); err != nil {
		return err
	}
	s.dlq.Add(time.Since(began))
	began = time.Now()
	err = s.ack(ctx, got, "retry")
	s.again.Add(time.Since(began))
	return err
}

func (s *skipped) take(ctx context.Context, batch int) ([]ackItem, error) {
	var got popped
	_, err := s.Call(ctx, http.MethodGet, fmt.Sprintf("/api/v1/pop/queue/%s?consumerGroup=g&batch=%d", s.queue, batch), nil, &got)
	return got.Messages, err
}

func (s *skipped) ack(ctx context.Context, items []ackItem, status string) error {
	for i := range items {
		items[i].Status = status
	}
	var results []struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}
	_, err := s.Call(ctx, http.MethodPost, "/api/v1/ack/batch", map[string]any{"acknowledgments": items, "consumerGroup": "g"}, &results)
	for _, result := range results {
		if !result.Success {
			err = errors.Join(err, fmt.Errorf("an ack was refused: %s", result.Error))
			break
		}
	}
	return err
}

// deadBatch makes many dead letters in one call. Meanwhile it acknowledges in another queue.
func (t *trial) deadBatch(ctx context.Context, out *rig.Report) error {
	one, err := t.skip(ctx, "batch", 0, skipBatch)
	if err != nil {
		return err
	}
	others, err := t.skip(ctx, "others", 10, 0)
	if err != nil {
		return err
	}
	got, err := one.take(ctx, skipBatch+1)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	workers := load.NewWorkers(ctx)
	var took, longest time.Duration
	workers.Go(func(ctx context.Context) error {
		defer close(done)
		began := time.Now()
		err := one.ack(ctx, got[1:], "dlq")
		took = time.Since(began)
		return err
	})
	workers.Go(func(ctx context.Context) error {
		for {
			waiting, err := others.take(ctx, 1)
			if err != nil {
				return err
			}
			began := time.Now()
			if err := others.ack(ctx, waiting, "retry"); err != nil {
				return err
			}
			longest = max(longest, time.Since(began))
			select {
			case <-done:
				return nil
			default:
			}
		}
	})
	if err := workers.Wait(); err != nil {
		return err
	}
	out.Limit("messages in one batch", fmt.Sprint(len(got)), fmt.Sprint(skipBatch+1), len(got) == skipBatch+1)
	out.Note(fmt.Sprintf("%d dead letters in one call", skipBatch), rig.Millis(took))
	out.Note("the longest ack in another queue during that call", rig.Millis(longest))
	return nil
}
