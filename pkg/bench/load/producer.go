package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// AfterError is the pause of a worker after a failed request.
	AfterError = 100 * time.Millisecond
	// afterEmpty is the pause after an immediate answer without messages.
	afterEmpty = 10 * time.Millisecond
)

// Traffic is what the producers and consumers of one measurement share.
type Traffic struct {
	Client *Client
	Meter  *Meter
	Ledger *Ledger
	// Groups are the names of the consumer groups; "" is queue mode.
	Groups []string
	// PayloadSize is the length of a payload in bytes.
	PayloadSize int
	// TransactionIDs gives every message a transaction id.
	TransactionIDs bool
	// Unanswered counts pops without an answer. With autoAck such a pop may have consumed
	// messages.
	Unanswered atomic.Int64
}

// Producer pushes one call after the other. It belongs to one goroutine.
type Producer struct {
	traffic *Traffic
	// Client is the server that the producer pushes to; it may be changed between pushes.
	Client *Client
	Lanes  []int
	// Batch is messages in a push, Spread the number of lanes they are for.
	Batch, Spread int
	// InFlight is the most messages in flight in a closed loop; 0 is any number.
	InFlight int

	turn   int
	chosen []int
	refs   []Ref
	body   []byte
	into   bytes.Buffer
}

// NewProducer returns a producer for some lanes, with pushes of one message.
func (t *Traffic) NewProducer(lanes ...int) *Producer {
	return &Producer{traffic: t, Client: t.Client, Lanes: lanes, Batch: 1, Spread: 1}
}

// NewProducers returns n producers that share all lanes, each lane at one producer.
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

// Push sends one batch to the next lanes of the producer. The push counts from start. Push
// blocks until the answer, also if ctx ends, and records the outcome in ledger and meter.
func (p *Producer) Push(ctx context.Context, start time.Time) (Response, error) {
	p.chosen = p.chosen[:0]
	spread := min(p.Spread, p.Batch, len(p.Lanes))
	for i := range p.Batch {
		p.chosen = append(p.chosen, p.Lanes[(p.turn+i%spread)%len(p.Lanes)])
	}
	p.turn += spread
	t := p.traffic
	p.refs = t.Ledger.begin(p.refs[:0], p.chosen, start)
	p.body = t.appendPush(p.body[:0], p.refs)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RequestTimeout)
	defer cancel()
	t.Meter.requests.Add(1)
	resp, err := p.Client.Do(ctx, Request{http.MethodPost, p.Client.push, p.body}, &p.into)
	if err == nil && !hasTimes(p.into.Bytes(), `"status":"queued"`, len(p.refs)) {
		err = checkQueued(p.into.Bytes(), len(p.refs))
	}
	t.Meter.Time(TimePush, start, start, resp.At)
	if err == nil {
		t.Ledger.stored(p.refs, resp.At)
		t.Meter.countPushed(len(p.refs), resp.At)
		return resp, nil
	}
	state := pushUnclear
	var f *Failure
	if errors.As(err, &f) && f.Refused {
		state = pushRefused
	}
	t.Ledger.failed(p.refs, state)
	t.Meter.fail(err)
	return resp, err
}

// checkQueued returns an error unless the server stored n messages.
func checkQueued(body []byte, n int) error {
	var results []struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(body, &results); err != nil {
		return unreadable("decoding the answer of a push: %w", err)
	}
	if len(results) != n {
		return unreadable("a push of %d items had %d answers", n, len(results))
	}
	for _, result := range results {
		if result.Status != "queued" {
			return &Failure{Kind: "not queued", err: fmt.Errorf("an item of a push was answered with the status %q", result.Status)}
		}
	}
	return nil
}

// Loop pushes until the end of the pacer or of ctx. In a closed loop it waits while InFlight
// messages are in flight.
func (p *Producer) Loop(ctx context.Context, pacer *Pacer) error {
	for {
		if !pacer.open() && p.InFlight > 0 {
			if err := p.traffic.Ledger.waitBelow(ctx, p.InFlight); err != nil {
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
