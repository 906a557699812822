// Package pusher pushes the lines of an input in batches. It sends up to 16 pushes at the same time and keeps the
// order of each partition.
//
// The package imports only pkg/client and pkg/cli/payload.
package pusher

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/belfry-mq/belfry/pkg/cli/payload"
	"github.com/belfry-mq/belfry/pkg/client"
)

const (
	// lanes is the number of simultaneous pushes. All messages of a partition use one lane, which keeps their order.
	lanes = 16
	// laneAhead is the number of batches that wait in a lane.
	laneAhead = 4
	// maxBatchBytes and maxBatchPartitions limit a batch. The default limits of a server are 16 MiB and 1,000
	// partitions.
	maxBatchBytes      = 4 << 20
	maxBatchPartitions = 1000
	// maxUnsent limits the total payload size of the batches that are not stored yet.
	maxUnsent = 64 << 20
	// silence and maxAge also end a batch: after silence without a new line, or maxAge after its first line.
	silence = 100 * time.Millisecond
	maxAge  = time.Second
)

// Pusher pushes lines in batches.
type Pusher struct {
	client *client.Client
	batch  int
	stored func(sum int64)

	// sending is the context of the pushes. It ends at the first error. An interrupt does not end it.
	sending context.Context
	fail    context.CancelCauseFunc
	room    *semaphore.Weighted
	waiting [lanes]batch
	queues  [lanes]chan batch
	oldest  time.Time // time of the oldest line that is not sent

	mutex  sync.Mutex
	counts Counts
}

// Counts has the number of messages per result of a push.
type Counts struct {
	Queued    int64 `json:"queued"`
	Duplicate int64 `json:"duplicate"`
	Buffered  int64 `json:"buffered"`
}

// Sum returns the number of stored messages.
func (c *Counts) Sum() int64 { return c.Queued + c.Duplicate + c.Buffered }

// Counts returns the results of the pushes. Call it after Run.
func (p *Pusher) Counts() Counts { return p.counts }

// batch has the messages of one request.
type batch struct {
	items      []client.Item
	bytes      int64
	partitions map[string]struct{}
}

// New returns a Pusher with batches of size messages. It calls stored with the number of messages stored so far.
func New(ctx context.Context, c *client.Client, size int, stored func(sum int64)) *Pusher {
	p := &Pusher{client: c, batch: size, stored: stored, room: semaphore.NewWeighted(maxUnsent)}
	p.sending, p.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	return p
}

// Run pushes the lines until the input ends, a push fails, or ctx ends. It blocks until all lines that were read are
// pushed.
func (p *Pusher) Run(ctx context.Context, lines *payload.Lines, build func([]byte) (client.Item, error)) error {
	defer p.fail(nil)
	var pushing sync.WaitGroup
	for i := range p.queues {
		p.queues[i] = make(chan batch, laneAhead)
		pushing.Go(func() { p.push(p.queues[i]) })
	}
	err := p.read(ctx, lines, build)
	p.flush()
	for i := range p.queues {
		close(p.queues[i])
	}
	pushing.Wait()
	if failed := context.Cause(p.sending); failed != nil {
		return failed
	}
	return err
}

// read adds lines to batches until the input or ctx ends.
func (p *Pusher) read(ctx context.Context, lines *payload.Lines, build func([]byte) (client.Item, error)) error {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for ctx.Err() == nil && p.sending.Err() == nil {
		var line payload.Line
		open := true
		select {
		case line, open = <-lines.C:
		default:
			timer.Reset(silence)
			select {
			case line, open = <-lines.C:
			case <-timer.C:
				p.flush()
				continue
			case <-ctx.Done():
				return nil
			case <-p.sending.Done():
				return nil
			}
		}
		if !open {
			return lines.Err()
		}
		item, err := build(line.Text)
		if err != nil {
			return fmt.Errorf("line %d %w", line.Number, err)
		}
		p.add(item, int64(len(line.Text)))
	}
	return nil
}

// add adds an item to the batch of its lane. It sends a batch that is full, and all batches after maxAge.
func (p *Pusher) add(item client.Item, size int64) {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, item.Partition)
	lane := int(hash.Sum32() % lanes)
	b := &p.waiting[lane]
	if b.partitions == nil {
		b.partitions = map[string]struct{}{}
	}
	b.items, b.bytes = append(b.items, item), b.bytes+size
	b.partitions[item.Partition] = struct{}{}
	now := time.Now()
	if p.oldest.IsZero() {
		p.oldest = now
	}
	switch {
	case now.Sub(p.oldest) >= maxAge:
		p.flush()
	case len(b.items) >= p.batch, b.bytes >= maxBatchBytes, len(b.partitions) >= maxBatchPartitions:
		p.hand(lane)
	}
}

// flush sends all batches to their lanes.
func (p *Pusher) flush() {
	for lane := range p.waiting {
		p.hand(lane)
	}
	p.oldest = time.Time{}
}

// hand sends the batch of a lane to the goroutine of the lane. It blocks while maxUnsent bytes are not stored yet.
func (p *Pusher) hand(lane int) {
	b := p.waiting[lane]
	p.waiting[lane] = batch{}
	if len(b.items) == 0 {
		return
	}
	b.bytes = min(b.bytes, maxUnsent)
	if p.room.Acquire(p.sending, b.bytes) != nil {
		return
	}
	select {
	case p.queues[lane] <- b:
	case <-p.sending.Done():
		p.room.Release(b.bytes)
	}
}

// push pushes the batches of one lane, one after the other.
func (p *Pusher) push(queue <-chan batch) {
	for b := range queue {
		if p.sending.Err() == nil {
			results, err := p.client.PushMany(p.sending, b.items)
			if err != nil {
				p.fail(err)
			}
			p.count(results)
		}
		p.room.Release(b.bytes)
	}
}

func (p *Pusher) count(results []client.PushResult) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i := range results {
		switch results[i].Status {
		case client.Duplicate:
			p.counts.Duplicate++
		case client.Buffered:
			p.counts.Buffered++
		default:
			p.counts.Queued++
		}
	}
	p.stored(p.counts.Sum())
}
