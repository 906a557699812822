package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

const (
	// AfterError is the pause of a worker after a failed request.
	AfterError = 100 * time.Millisecond
	// afterEmpty is the pause after an immediate answer without messages.
	afterEmpty = 10 * time.Millisecond
)

// Traffic has the objects and settings that all producers and consumers of one measurement share.
type Traffic struct {
	Client *Client
	Meter  *Meter
	Ledger *Ledger
	// Groups are the names of the consumer groups. An empty name means requests without a group.
	Groups []string
	// PayloadSize is the length of a payload in bytes.
	PayloadSize int
	// Headers is the number of headers of a message.
	Headers int
	// TransactionIDs gives every message a transaction id.
	TransactionIDs bool
	// Unanswered counts pops without an answer. A pop with autoAck may have consumed messages although it got no
	// answer.
	Unanswered atomic.Int64
}

// Producer sends one push after the other. It belongs to one goroutine.
type Producer struct {
	traffic *Traffic
	// Client sends the pushes. It may be changed between two pushes.
	Client *Client
	Lanes  []int
	// Batch is the number of messages per push. Spread is the number of lanes of these messages.
	Batch, Spread int
	// InFlight is the maximum number of messages in flight in a closed loop. 0 means no limit.
	InFlight int

	turn   int
	refs   []Ref
	pushes batch
}

// NewProducer returns a producer for the given lanes. Each push has one message.
func (t *Traffic) NewProducer(lanes ...int) *Producer {
	return &Producer{traffic: t, Client: t.Client, Lanes: lanes, Batch: 1, Spread: 1}
}

// NewProducers returns n producers. Each lane belongs to one of them.
func (t *Traffic) NewProducers(n, batch, spread int) []*Producer {
	all := make([]*Producer, n)
	for i := range all {
		all[i] = t.NewProducer()
		all[i].Batch, all[i].Spread = batch, spread
	}
	for i := range t.Ledger.lanes {
		p := all[i%n]
		p.Lanes = append(p.Lanes, i)
	}
	return all
}

// Push sends one batch to the next lanes of the producer. The time of the push counts from start. Push blocks until
// the answer, even if ctx ends. It records the outcome in the ledger and the meter.
func (p *Producer) Push(ctx context.Context, start time.Time) (Response, error) {
	p.refs = p.refs[:0]
	spread := min(p.Spread, p.Batch, len(p.Lanes))
	for i := range p.Batch {
		p.refs = append(p.refs, Ref{Lane: p.Lanes[(p.turn+i%spread)%len(p.Lanes)]})
	}
	p.turn += spread
	t := p.traffic
	t.Ledger.begin(p.refs, start)
	p.pushes.body = t.appendPush(p.pushes.body[:0], p.refs)
	t.Meter.Requests.Add(1)
	results, resp, err := p.pushes.post(ctx, p.Client, "/api/v1/push", len(p.refs), `"status":"queued"`)
	for _, r := range results {
		if r.Status != "queued" {
			err = &Failure{Kind: "not queued", error: fmt.Errorf("an item of a push was answered with the status %q", r.Status)}
			break
		}
	}
	t.Meter.Time(TimePush, start, start, resp.At)
	var f *Failure
	state := pushUnclear
	switch {
	case err == nil:
		state = pushStored
		t.Meter.count(&t.Meter.Pushed, len(p.refs), resp.At)
	case errors.As(err, &f) && f.Refused:
		state = pushRefused
	}
	t.Ledger.answered(p.refs, state, resp.At)
	if err != nil {
		t.Meter.fail(err)
	}
	return resp, err
}

// Loop pushes until the pacer or ctx ends. In a closed loop, it waits while InFlight messages are in flight.
func (p *Producer) Loop(ctx context.Context, pacer *Pacer) error {
	for {
		if !pacer.open() && p.InFlight > 0 {
			const forever = math.MaxInt64
			if _, err := p.traffic.Ledger.waitBelow(ctx, p.InFlight, forever); err != nil {
				return err
			}
		}
		start, ok := pacer.Next(ctx)
		if !ok {
			return nil
		}
		if _, err := p.Push(ctx, start); err != nil {
			if err := Pause(ctx, AfterError); err != nil {
				return err
			}
		}
	}
}
