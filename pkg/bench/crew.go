package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// afterError is the pause of a worker whose request failed.
	afterError = 100 * time.Millisecond
	// afterEmpty is the pause after an answer without messages that did not wait.
	afterEmpty = 10 * time.Millisecond
	// waitTime is how long a pop waits at the server.
	waitTime = 30 * time.Second
)

// crew are loops that run until they are told to leave.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup
}

func newCrew(ctx context.Context) *crew {
	ctx, cancel := context.WithCancel(ctx)
	return &crew{ctx: ctx, cancel: cancel}
}

func (c *crew) join(loop func(ctx context.Context)) { c.loops.Go(func() { loop(c.ctx) }) }

// leave ends all loops and waits for them.
func (c *crew) leave() {
	c.cancel()
	c.loops.Wait()
}

// producer pushes to its lanes in turn, one call after the other.
type producer struct {
	t     *trial
	lanes []int
	batch int
	// spread is how many lanes the messages of a push are for.
	spread int
	turn   int

	chosen []int
	refs   []ref
	body   []byte
	into   bytes.Buffer
}

// producers deals the lanes of a trial to n producers.
func (t *trial) producers(n, batch int) []*producer {
	all := make([]*producer, n)
	for i := range all {
		all[i] = &producer{t: t, batch: batch, spread: t.PushPartitions}
	}
	for i := range t.book.lanes {
		p := all[i%n]
		p.lanes = append(p.lanes, i)
	}
	return all
}

// push sends one batch. The push counts from start. It returns the failure, after
// noting it.
func (p *producer) push(ctx context.Context, start time.Time) (answer, error) {
	p.chosen = p.chosen[:0]
	spread := min(p.spread, p.batch, len(p.lanes))
	for i := range p.batch {
		p.chosen = append(p.chosen, p.lanes[(p.turn+i%spread)%len(p.lanes)])
	}
	p.turn += spread
	p.refs = p.t.book.begin(p.refs[:0], p.chosen, start)
	p.body = appendPush(p.body[:0], p.t, p.refs)
	// A push that is under way is worth its answer, whatever ends meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	p.t.meter.requests.Add(1)
	got, err := p.t.client.do(ctx, http.MethodPost, p.t.client.push, p.body, &p.into)
	if err == nil && !all(p.into.Bytes(), `"status":"queued"`, len(p.refs)) {
		err = queued(p.into.Bytes(), len(p.refs))
	}
	p.t.meter.time(timePush, start, start, got.at)
	if err == nil {
		p.t.book.stored(p.refs, got.at)
		p.t.meter.stored(len(p.refs), got.at)
		return got, nil
	}
	what := unclear
	var f *failure
	if errors.As(err, &f) && f.refused {
		what = refused
	}
	p.t.book.failed(p.refs, what)
	p.t.meter.fail(err)
	return got, err
}

// queued reads the answer of a push: everything must have been stored.
func queued(body []byte, n int) error {
	var results []struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(body, &results); err != nil {
		return &failure{kind: "unreadable", err: fmt.Errorf("decoding the answer of a push: %w", err)}
	}
	if len(results) != n {
		return &failure{kind: "unreadable", err: fmt.Errorf("a push of %d items had %d answers", n, len(results))}
	}
	for _, result := range results {
		if result.Status != "queued" {
			return &failure{kind: "not queued", err: fmt.Errorf("an item of a push was answered with the status %q", result.Status)}
		}
	}
	return nil
}

// loop pushes at a pace until its end. most is how many messages may be on the
// way in a closed loop, 0 for any number.
func (p *producer) loop(ctx context.Context, at *pace, most int) {
	for {
		if !at.open() && most > 0 && p.t.book.below(ctx, most) != nil {
			return
		}
		start, ok := at.next(ctx)
		if !ok {
			return
		}
		if _, err := p.push(ctx, start); err != nil && pause(ctx, afterError) != nil {
			return
		}
	}
}

// consumer pops and acknowledges for a group.
type consumer struct {
	t       *trial
	group   int
	autoAck bool
	// now and wait are the addresses of a pop that does not wait and one that does.
	now, wait *url.URL
	// timed: the pops that do not wait are measured.
	timed bool
	// own is the last number by lane, with autoAck.
	own map[int]int

	popped inbound
	body   []byte
	into   bytes.Buffer
}

func (t *trial) consumer(group, batch, partitions int, autoAck bool) *consumer {
	c := &consumer{t: t, group: group, autoAck: autoAck}
	partitions = min(batch, partitions)
	c.now = t.client.popURL(t.queue, t.groups[group], batch, partitions, autoAck, 0)
	c.wait = t.client.popURL(t.queue, t.groups[group], batch, partitions, autoAck, waitTime)
	if autoAck {
		c.own = map[int]int{}
	}
	return c
}

// pop takes what is there and notes it.
func (c *consumer) pop(ctx context.Context, at *url.URL) (*delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime+requestTimeout)
	defer cancel()
	c.t.meter.requests.Add(1)
	d, err := c.t.client.pop(ctx, at, &c.popped)
	if err != nil || len(d.Messages) == 0 {
		return d, err
	}
	if c.timed && at == c.now {
		c.t.meter.time(timePop, d.sent, d.sent, d.at)
	}
	c.t.book.took(c.group, d, c.own)
	c.t.meter.delivered(len(d.Messages), d.at)
	return d, nil
}

// ack completes a delivery. It is worth its answer, whatever ends meanwhile.
func (c *consumer) ack(ctx context.Context, d *delivery) {
	if c.autoAck {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	c.body = appendAck(c.body[:0], d, c.t.groups[c.group])
	c.t.meter.requests.Add(1)
	_, err := c.t.client.do(ctx, http.MethodPost, c.t.client.ack, c.body, &c.into)
	if err == nil && all(c.into.Bytes(), `"success":true`, len(d.Messages)) {
		c.t.book.acked(c.group, d, func(int) bool { return true })
		return
	}
	var results []struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}
	if err == nil {
		if err = json.Unmarshal(c.into.Bytes(), &results); err == nil && len(results) != len(d.Messages) {
			err = fmt.Errorf("%d acks had %d answers", len(d.Messages), len(results))
		}
		if err != nil {
			err = &failure{kind: "unreadable", err: fmt.Errorf("decoding the answer of an ack: %w", err)}
		}
	}
	if err != nil {
		c.t.meter.fail(err)
		c.t.book.acked(c.group, d, func(int) bool { return false })
		return
	}
	c.t.book.acked(c.group, d, func(i int) bool { return results[i].Success })
	for _, result := range results {
		if !result.Success {
			c.t.meter.fail(&failure{kind: "ack refused", err: fmt.Errorf("an ack was refused: %s", result.Error)})
			return
		}
	}
}

// loop pops and acknowledges until ctx ends. It waits at the server when there
// was nothing; eager: only then.
func (c *consumer) loop(ctx context.Context, eager bool) {
	at := c.wait
	for ctx.Err() == nil {
		if eager {
			at = c.now
		}
		d, err := c.pop(ctx, at)
		if err == nil && len(d.Messages) == 0 && eager {
			at = c.wait
			d, err = c.pop(ctx, at)
		}
		switch {
		case ctx.Err() != nil && err != nil:
			return
		case err != nil:
			c.t.lostPops.Add(1)
			c.t.meter.fail(err)
			_ = pause(ctx, afterError)
		case len(d.Messages) > 0:
			c.ack(ctx, d)
		case d.at.Sub(d.sent) < afterEmpty:
			_ = pause(ctx, afterEmpty)
		}
	}
}
