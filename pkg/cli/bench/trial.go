package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

const (
	// leaseTime is the lease time of the queue of a trial.
	leaseTime = 30 * time.Second
	// restBatch is the batch size of the pops that drain a queue after the load.
	restBatch = 1000
)

// trial is one run of one scenario on a new queue.
type trial struct {
	Settings
	*load.Traffic
	scenario scenario
	queue    string
	// counted has the number of messages for the result.
	counted *load.Messages
	// judged means that the load ran to its end, so an undelivered message is lost.
	judged bool
	result Result
}

func newTrial(s Settings, sc scenario, c *load.Client) *trial {
	t := &trial{Settings: sc.settle(s), scenario: sc}
	t.Traffic = &load.Traffic{
		Client: c, Meter: load.NewMeter(), Groups: []string{""}, PayloadSize: t.Payload, Headers: t.Settings.Headers, TransactionIDs: t.Settings.TransactionIDs,
	}
	t.counted = &t.Meter.Delivered
	t.queue = fmt.Sprintf("bench-%s-%s", strings.ToLower(rand.Text()[:10]), sc.name)
	if sc.groups > 0 {
		t.Traffic.Groups = nil
		for i := range t.Settings.Groups {
			t.Traffic.Groups = append(t.Traffic.Groups, fmt.Sprintf("group-%d", i))
		}
	}
	return t
}

// openLedger creates the ledger. Each partition and each producer has at least one lane. With timed, the meter
// measures deliveries.
func (t *trial) openLedger(producers int, timed bool) {
	config := load.LedgerConfig{Groups: len(t.Traffic.Groups), Lease: leaseTime}
	for lane := range max(t.Partitions, producers) {
		config.Lanes = append(config.Lanes, load.Lane{Queue: t.queue, Partition: fmt.Sprintf("p%d", lane%t.Partitions)})
	}
	if timed {
		config.Meter = t.Meter
	}
	t.Ledger = load.NewLedger(config)
}

// popOptions returns the options of a consumer's pops from the settings of the trial.
func (t *trial) popOptions() load.PopOptions {
	return load.PopOptions{Batch: t.PopBatch, Partitions: t.PopPartitions, AutoAck: t.AutoAck}
}

// startConsumers starts n consumers of each group.
func (t *trial) startConsumers(ctx context.Context, n int, o load.PopOptions) *load.Workers {
	consumers := load.NewWorkers(ctx)
	o.Queue = t.queue
	for o.Group = range t.Traffic.Groups {
		for range n {
			consumers.Go(t.NewConsumer(o).Loop)
		}
	}
	return consumers
}

// run creates the queue, loads the server, checks the deliveries and deletes the queue.
func (t *trial) run(ctx context.Context) (err error) {
	// An interrupt does not stop the creation and the deletion of the queue.
	lasting := context.WithoutCancel(ctx)
	if err := t.Client.Configure(lasting, t.queue, map[string]int{"leaseTime": int(leaseTime.Seconds())}); err != nil {
		return fmt.Errorf("creating a queue (does --server lead to a server?): %w", err)
	}
	if !t.Keep {
		defer func() {
			if failed := t.Client.Delete(lasting, t.queue); failed != nil {
				err = errors.Join(err, fmt.Errorf("deleting the queue %s: %w", t.queue, failed))
			}
		}()
	}
	if err := t.scenario.run(ctx, t); err != nil && ctx.Err() == nil {
		return err
	}
	t.Meter.End(time.Now())
	t.conclude(ctx.Err() != nil)
	return nil
}

// drain waits until the consumers have received the remaining messages, and stops the consumers. Then it pops the
// messages that woke no waiting pop. A message that is still missing is lost.
func (t *trial) drain(ctx context.Context, consumers *load.Workers) error {
	all, err := t.Ledger.WaitDrained(ctx, t.Patience)
	if err == nil && !all && (t.Unanswered.Load() > 0 || t.Ledger.Counts().LostLeases > 0) {
		// The server delivers messages of lost leases again after the lease time.
		_, err = t.Ledger.WaitDrained(ctx, leaseTime)
	}
	if err = errors.Join(err, consumers.Stop()); err != nil {
		return err
	}
	for group := range t.Traffic.Groups {
		o := load.PopOptions{Queue: t.queue, Group: group, Batch: restBatch, Partitions: t.PopPartitions}
		if err := t.Search(ctx, o); err != nil {
			return err
		}
	}
	t.judged = true
	return nil
}

func (t *trial) note(format string, args ...any) {
	t.result.Notes = append(t.result.Notes, fmt.Sprintf(format, args...))
}

// conclude fills the result of the trial.
func (t *trial) conclude(interrupted bool) {
	r := &t.result
	r.Scenario, r.Interrupted, r.Seconds = t.scenario.name, interrupted, t.Meter.Seconds()
	if t.Keep {
		r.Queue = t.queue
	}
	r.Latencies, r.Counts = t.Meter.Latencies(), t.Ledger.Counts()
	r.Faults = t.faults()
	r.Messages, r.Requests = int(t.counted.Within.Load()), int(t.Meter.Requests.Load())
	r.Errors, r.Examples = t.Meter.Errors()
	if r.Seconds > 0 && !t.scenario.single && !t.scenario.quiet {
		r.Rate = float64(r.Messages) / r.Seconds
	}
	if interrupted {
		t.note("the run was interrupted: undelivered messages do not count as lost")
	}
}

// faults returns a text for each violated guarantee.
func (t *trial) faults() []string {
	c := &t.result.Counts
	faults := []string{}
	fault := func(n int, format string) {
		if n > 0 {
			faults = append(faults, fmt.Sprintf(format, n))
		}
	}
	fault(c.Duplicates, "%d messages were delivered again although they were leased or acknowledged")
	fault(c.Disordered, "%d messages were delivered out of order")
	fault(c.Unexpected, "%d messages were delivered with a queue, partition or number that was never pushed, or after a refused push")
	fault(c.Stuck, "%d messages reached no waiting consumer; a later pop found them")
	switch unanswered := t.Unanswered.Load(); {
	case !t.judged:
		c.Lost = 0
	case c.Lost > 0 && t.AutoAck && unanswered > 0:
		t.note("%d messages are missing: they do not count as lost, because %d pops with autoAck got no answer and may have consumed them", c.Lost, unanswered)
		c.Lost = 0
	default:
		fault(c.Lost, "%d messages of acknowledged pushes were not delivered")
	}
	if t.judged && !t.scenario.quiet && c.Pushed == 0 {
		faults = append(faults, "no push succeeded, so nothing was measured")
	}
	return faults
}
