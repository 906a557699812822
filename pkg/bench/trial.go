package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// leaseTime is the lease of the queues a trial makes.
const leaseTime = 30 * time.Second

// trial is one run of one scenario on a queue of its own.
type trial struct {
	Settings
	scenario scenario
	client   *client
	queue    string
	// groups are the names of the consumer groups; "" is queue mode.
	groups []string
	book   *ledger
	meter  *meter
	// lostPops counts pops without an answer: who knows what they took.
	lostPops atomic.Int64
	// judged: the load ran to its end, so what is missing is missing.
	judged bool
	result Result
}

func newTrial(s Settings, sc scenario, c *client) *trial {
	t := &trial{Settings: sc.settle(s), scenario: sc, client: c, meter: newMeter(), groups: []string{""}}
	var random [5]byte
	// It never fails.
	_, _ = rand.Read(random[:])
	t.queue = fmt.Sprintf("bench-%s-%s", hex.EncodeToString(random[:]), sc.name)
	if sc.groups > 0 {
		t.groups = nil
		for i := range t.Groups {
			t.groups = append(t.groups, fmt.Sprintf("group-%d", i))
		}
	}
	return t
}

// openBook begins the ledger of so many producers: each partition has a lane,
// and so has each producer.
func (t *trial) openBook(producers int) {
	t.book = newLedger(max(t.Partitions, producers), t.Partitions, len(t.groups), leaseTime, t.meter)
}

// run makes the queue, loads the server, judges and deletes the queue.
func (t *trial) run(ctx context.Context) (err error) {
	// The queue is made and deleted also when an interrupt comes in between.
	lasting := context.WithoutCancel(ctx)
	if err := t.client.configure(lasting, t.queue, leaseTime); err != nil {
		return err
	}
	if !t.Keep {
		defer func() { err = errors.Join(err, t.client.remove(lasting, t.queue)) }()
	}
	if err := t.scenario.run(ctx, t); err != nil && ctx.Err() == nil {
		return err
	}
	t.meter.end(time.Now())
	t.conclude(ctx.Err() != nil)
	return nil
}

// drain lets consumers take what is left, looks for what no pop was woken for,
// and settles what is missing.
func (t *trial) drain(ctx context.Context, consumers *crew) error {
	all, err := t.book.drained(ctx, t.Patience)
	if err == nil && !all && (t.lostPops.Load() > 0 || t.book.counts().LostLeases > 0) {
		// What they took comes again when its lease ends.
		_, err = t.book.drained(ctx, leaseTime)
	}
	consumers.leave()
	if err != nil {
		return err
	}
	for group := range t.groups {
		if err := t.search(ctx, group); err != nil {
			return err
		}
	}
	t.judged = true
	return nil
}

// search takes what a pop that does not wait finds. All of it was either stuck
// or is there twice.
func (t *trial) search(ctx context.Context, group int) error {
	const batch = 1000
	c := t.consumer(group, batch, t.PopPartitions, true)
	before := t.book.counts().Delivered
	for {
		d, err := c.pop(ctx, c.now)
		if err != nil {
			return fmt.Errorf("looking for what is left: %w", err)
		}
		if len(d.Messages) == 0 {
			break
		}
	}
	t.result.Counts.Stuck += t.book.counts().Delivered - before
	return nil
}

// takeRest empties the queue for a scenario without consumers of its own. It
// uses leases, so that the order is known.
func (t *trial) takeRest(ctx context.Context) error {
	const batch = 1000
	consumers := newCrew(ctx)
	for group := range t.groups {
		for range min(t.Connections, 8) {
			consumers.join(func(ctx context.Context) { t.consumer(group, batch, t.PopPartitions, false).loop(ctx, true) })
		}
	}
	return t.drain(ctx, consumers)
}

// conclude turns what was counted into the result.
func (t *trial) conclude(interrupted bool) {
	r := &t.result
	r.Scenario, r.Queue, r.Interrupted, r.Seconds = t.scenario.name, t.queue, interrupted, t.meter.seconds()
	if !t.Keep {
		r.Queue = ""
	}
	r.Latencies, r.Faults = t.meter.latencies(), []string{}
	r.Requests = int(t.meter.requests.Load())
	r.Errors, r.Examples = t.meter.errors, t.meter.examples
	if t.book != nil {
		stuck := r.Counts.Stuck
		r.Counts = t.book.counts()
		r.Counts.Stuck = stuck
		r.Faults = append(r.Faults, t.faults()...)
	}
	if r.Seconds > 0 && !t.scenario.single && !t.scenario.quiet {
		r.Rate = float64(r.Messages) / r.Seconds
	}
	if interrupted {
		r.Notes = append(r.Notes, "interrupted: what had not come yet is not judged")
	}
}

// faults says which promises were broken.
func (t *trial) faults() []string {
	c := &t.result.Counts
	var faults []string
	fault := func(n int, format string) {
		if n > 0 {
			faults = append(faults, fmt.Sprintf(format, n))
		}
	}
	fault(c.Duplicates, "%d messages were delivered again although their lease held or they were acknowledged")
	fault(c.Disordered, "%d messages came out of order")
	fault(c.Unexpected, "%d messages came that were not pushed so, or were refused")
	fault(c.Stuck, "%d messages came to no consumer that waited, only to a pop afterwards")
	switch {
	case !t.judged:
		c.Lost = 0
	case c.Lost > 0 && t.AutoAck && t.lostPops.Load() > 0:
		t.result.Notes = append(t.result.Notes, fmt.Sprintf(
			"%d messages are missing and not judged: %d pops with autoAck had no answer and may have taken them", c.Lost, t.lostPops.Load()))
		c.Lost = 0
	default:
		fault(c.Lost, "%d deliveries of acknowledged pushes never came")
	}
	if t.judged && !t.scenario.quiet && c.Pushed == 0 {
		faults = append(faults, "no push succeeded, so nothing was measured")
	}
	return faults
}
