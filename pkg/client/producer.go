package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/reach"
)

const (
	defaultBatchItems  = 1000
	defaultBufferItems = 10_000
	defaultBufferBytes = 16 << 20
	// maxBatchBytes limits the payloads of a request. By default, the server accepts bodies of 16 MiB.
	maxBatchBytes = 4 << 20
)

// ProducerOptions are the settings of a Producer.
type ProducerOptions struct {
	// BatchItems is the maximum number of messages of a request. 0 means 1,000.
	BatchItems int
	// BufferItems and BufferBytes limit the buffer: the number of messages that are not stored yet, and the bytes of their
	// payloads. 0 means 10,000 messages and 16 MiB. While the buffer is full, Push waits. An empty buffer accepts a message that
	// is larger than BufferBytes.
	BufferItems, BufferBytes int
}

// Producer collects messages of many goroutines and pushes them in few requests. It is safe for concurrent use.
//
// It sends one request at a time, as soon as it has a message. Messages that arrive during a request share the next request. So
// messages of one goroutine to one queue are stored in order. If a queue is full, all later messages wait until the queue has
// room or RetryFor has passed, even messages for other queues. To avoid this wait, use a producer for each queue.
//
// Call Close before the process ends. Otherwise messages that are not stored yet are lost.
type Producer struct {
	client  *Client
	options ProducerOptions

	mu sync.Mutex
	// waiting are the messages that are not sent yet.
	waiting []pendingPush
	// items and bytes count the messages in the buffer, including the messages of the current request.
	items, bytes int
	sending      bool
	closed       bool
	// changed closes when messages leave the buffer. Then a new channel replaces it.
	changed chan struct{}
	// ctx ends when Close gives up.
	ctx    context.Context //nolint:containedctx // the context is the lifetime of the requests
	cancel context.CancelFunc
}

// pendingPush is a message with the function that gets its result.
type pendingPush struct {
	Item
	done func(PushResult, error)
}

// size returns the number of bytes of the encoded payload.
func (p *pendingPush) size() int {
	payload, _ := p.Payload.(json.RawMessage)
	return len(payload)
}

// NewProducer returns a producer:
//
//	producer := c.NewProducer(client.ProducerOptions{})
//	defer producer.Close(ctx)
//
// The documentation of Producer describes its behavior.
func (c *Client) NewProducer(o ProducerOptions) *Producer {
	ctx, cancel := context.WithCancel(context.Background())
	set := func(option *int, otherwise int) {
		if *option <= 0 {
			*option = otherwise
		}
	}
	set(&o.BatchItems, defaultBatchItems)
	set(&o.BufferItems, defaultBufferItems)
	set(&o.BufferBytes, defaultBufferBytes)
	return &Producer{client: c, options: o, changed: make(chan struct{}), ctx: ctx, cancel: cancel}
}

// Push adds a message to the buffer:
//
//	err := producer.Push(ctx, client.Item{Queue: "orders", Payload: order}, func(result client.PushResult, err error) { ... })
//
// Push blocks while the buffer is full, until ctx ends or Close is called. If Push returns nil, the producer calls done once,
// with the result of the message or the error of its request. done may be nil. done runs in the goroutine that sends the
// requests. It must be short, and must not call the producer.
//
// If the item cannot be encoded, Push returns ErrInvalid at once. The server refuses a whole request because of one invalid
// message or one full queue. Then the producer sends smaller requests, so that only the invalid message or the messages of the
// full queue fail.
func (p *Producer) Push(ctx context.Context, item Item, done func(PushResult, error)) error {
	encoded, err := encodeItems(ctx, []Item{item})
	if err != nil {
		return err
	}
	if done == nil {
		done = func(PushResult, error) {}
	}
	pending := pendingPush{encoded[0], done}
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return ErrClosed
		}
		if p.items == 0 || p.items < p.options.BufferItems && p.bytes+pending.size() <= p.options.BufferBytes {
			p.addLocked(pending)
			p.mu.Unlock()
			return nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for room in the buffer: %w", context.Cause(ctx))
		}
	}
}

// PushWait adds a message and blocks until it is stored or ctx ends:
//
//	result, err := producer.PushWait(ctx, client.Item{Queue: "orders", Payload: order})
//
// If ctx ends, the message may still be stored.
func (p *Producer) PushWait(ctx context.Context, item Item) (PushResult, error) {
	type outcome struct {
		result PushResult
		err    error
	}
	ended := make(chan outcome, 1)
	if err := p.Push(ctx, item, func(result PushResult, err error) { ended <- outcome{result, err} }); err != nil {
		return PushResult{}, err
	}
	select {
	case o := <-ended:
		return o.result, o.err
	case <-ctx.Done():
		return PushResult{}, fmt.Errorf("waiting for a push: %w", context.Cause(ctx))
	}
}

// Flush blocks until the buffer is empty or ctx ends.
func (p *Producer) Flush(ctx context.Context) error {
	for {
		p.mu.Lock()
		empty, changed := p.items == 0 && !p.sending, p.changed
		p.mu.Unlock()
		if empty {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("flushing: %w", context.Cause(ctx))
		}
	}
}

// Close makes Push return ErrClosed, and blocks until the buffer is empty. If ctx ends earlier, Close gives up the remaining
// messages: their done functions get an error, and the server may or may not have stored them.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.broadcastLocked()
	p.mu.Unlock()
	err := p.Flush(ctx)
	p.cancel()
	if err != nil {
		err = errors.Join(err, p.Flush(context.WithoutCancel(ctx)))
	}
	return err
}

// addLocked adds a message to the buffer, and starts the sending goroutine unless it runs.
func (p *Producer) addLocked(pending pendingPush) {
	p.waiting = append(p.waiting, pending)
	p.items++
	p.bytes += pending.size()
	if !p.sending {
		p.sending = true
		go p.send() // Close waits for this goroutine
	}
}

func (p *Producer) broadcastLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// send sends messages until no message waits.
func (p *Producer) send() {
	for {
		p.mu.Lock()
		batch := p.takeLocked()
		if len(batch) == 0 {
			p.sending = false
			p.broadcastLocked()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		p.push(batch)
		p.mu.Lock()
		for i := range batch {
			p.items--
			p.bytes -= batch[i].size()
		}
		p.broadcastLocked()
		p.mu.Unlock()
	}
}

// takeLocked removes the messages of the next request.
func (p *Producer) takeLocked() []pendingPush {
	n, bytes := 0, 0
	for n < min(len(p.waiting), p.options.BatchItems) {
		bytes += p.waiting[n].size()
		if n > 0 && bytes > maxBatchBytes {
			break
		}
		n++
	}
	batch := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
	return batch
}

// push sends messages. It repeats the messages of full queues last, so that they do not delay the other queues.
func (p *Producer) push(batch []pendingPush) {
	for _, full := range p.attempt(batch, true) {
		pauseFor(p.ctx, full.pause)
		p.attempt(full.batch, false)
	}
}

// fullQueue are messages of one queue that the server refused because the queue is full.
type fullQueue struct {
	batch []pendingPush
	// pause is how long to wait before the repetition.
	pause time.Duration
}

// attempt sends messages in one request, or in several requests if the server refuses the whole request. A hasty attempt returns
// the messages of full queues, which the caller repeats.
func (p *Producer) attempt(batch []pendingPush, hasty bool) (full []fullQueue) {
	items := make([]Item, len(batch))
	for i := range batch {
		items[i] = batch[i].Item
	}
	results, err := p.client.pushEncoded(p.ctx, items, hasty)
	var failure *Error
	if errors.As(err, &failure) && failure.divisible() {
		queues := byQueue(batch)
		switch {
		case len(queues) > 1:
			for _, queue := range queues {
				full = append(full, p.attempt(queue, hasty)...)
			}
			return full
		case failure.Status == http.StatusTooManyRequests:
			if hasty && p.client.retryFor > 0 {
				return []fullQueue{{batch, max(reach.FirstPause, failure.RetryAfter)}}
			}
		case len(batch) > 1: // not hasty, because the second half must not overtake the first half
			p.attempt(batch[:len(batch)/2], false)
			p.attempt(batch[len(batch)/2:], false)
			return nil
		}
	}
	for i := range batch {
		if err != nil {
			batch[i].done(PushResult{}, err)
			continue
		}
		batch[i].done(results[i], nil)
	}
	return nil
}

// byQueue divides messages by queue. It keeps the order of the messages of each queue.
func byQueue(batch []pendingPush) (queues [][]pendingPush) {
	places := map[string]int{}
	for _, pending := range batch {
		place, known := places[pending.Queue]
		if !known {
			place = len(queues)
			places[pending.Queue] = place
			queues = append(queues, nil)
		}
		queues[place] = append(queues[place], pending)
	}
	return queues
}
