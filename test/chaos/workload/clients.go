package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// AutoAckGroup is the only group with autoAck pops. An autoAck pop of unknown outcome may have consumed messages.
const AutoAckGroup = "careless"

// groups read the common queues. The empty name means requests without a group.
var groups = []string{"", "billing", "audit", AutoAckGroup}

const mostComplaints = 100

// Config is the size of the workload.
type Config struct {
	Seed uint64
	// URLs are the addresses of the servers. Every client uses all of them.
	URLs     []string
	Recorder *history.Recorder
	// Queues is the number of queues, Partitions the number per queue, and Consumers the number per group.
	Queues, Partitions, Producers, Consumers int
	// SQLProducers push by SQL, Writers write to an attached table, and SQLConsumers pop and acknowledge by SQL. All
	// of them use Database. If there are SQLConsumers, awaitGroup also has consumers in SQL.
	Database                            *pgxpool.Pool
	SQLProducers, Writers, SQLConsumers int
	// Quiet leaves out the intruders, which send requests without a pause and use much of the processor.
	Quiet bool
}

// Clients are all clients of a run. All exported methods except Resolve may be called while the clients work.
type Clients struct {
	cfg     Config
	created int // changed only before the work begins, and later by Drain

	// These counters count malformed requests by their answer; see Counts.
	malformedRefused, malformedUnanswered, malformedUnavailable, intrusionsRefused atomic.Int64
	// target is a delivery that intruders know.
	target atomic.Pointer[target]

	last atomic.Int64 // time of the latest delivery, on the clock of the recorder

	mu         sync.Mutex
	complaints []string
	suppressed int
	anonymous  map[int64][]string  // marks of pushes without ids, by operation id
	learned    map[string]learning // by mark; filled from deliveries
	changed    []change
}

// New returns clients that have not started.
func New(cfg Config) *Clients {
	return &Clients{cfg: cfg, anonymous: map[int64][]string{}, learned: map[string]learning{}}
}

// Queues returns the names of the queues.
func (c *Clients) Queues() []string {
	names := c.common()
	for _, a := range lossyQueues {
		names = append(names, a.queue)
	}
	return append(names, idleQueue)
}

// common returns the queues that most clients use.
func (c *Clients) common() []string {
	names := make([]string, c.cfg.Queues)
	for i := range names {
		names[i] = queueName(i)
	}
	return names
}

// groupName returns the name of a group in the history and the tables.
func groupName(group string) string {
	if group == "" {
		return queue.DefaultGroup
	}
	return group
}

// Read is a queue with a group that reads the queue.
type Read struct{ Queue, Group string }

// Reads returns all reads, with the names in the history and the tables.
func (c *Clients) Reads() []Read {
	var reads []Read
	for _, name := range c.common() {
		for _, group := range slices.Concat(groups, movedGroups) {
			reads = append(reads, Read{name, groupName(group)})
		}
		if c.awaitConsumers() > 0 {
			reads = append(reads, Read{name, awaitGroup})
		}
	}
	for _, a := range lossyQueues {
		for _, group := range a.groups() {
			reads = append(reads, Read{a.queue, group})
		}
	}
	for _, group := range idleGroups {
		reads = append(reads, Read{idleQueue, group})
	}
	return reads
}

// awaitConsumers returns the number of consumers of awaitGroup.
func (c *Clients) awaitConsumers() int {
	if c.cfg.SQLConsumers == 0 {
		return 0
	}
	return awaitGroupSize
}

// Prepare configures the queues. Then it creates every group in its queues, so that every group receives every
// message. It needs working servers.
func (c *Clients) Prepare(ctx context.Context) error {
	operator := c.client("operator")
	defer operator.http.CloseIdleConnections()
	// One common queue has a retry delay. It is shorter than any allowed wait.
	options := map[string]map[string]any{idleQueue: idleOptions, sumsQueue: {}, goQueue: {}, queueName(0): {"retryDelay": int(retryDelay.Milliseconds())}}
	for _, a := range lossyQueues {
		options[a.queue] = a.options
	}
	for _, name := range append(c.Queues(), sumsQueue, goQueue) {
		all := map[string]any{"leaseTime": int(LeaseTime.Seconds()), "retryLimit": RetryLimit}
		maps.Copy(all, options[name])
		body := encode(map[string]any{"queue": name, "options": all})
		if got := operator.send(ctx, http.MethodPost, "/api/v1/configure", body, 0); got.Status != http.StatusOK {
			return errors.Join(fmt.Errorf("configuring %s: status %d: %s", name, got.Status, got.Raw), got.err)
		}
	}
	for _, read := range c.Reads() {
		r := popRequest{queue: read.Queue, group: read.group(), batch: 1, partitions: 1}
		if _, o := operator.pop(ctx, r); o.Outcome != history.Done {
			return fmt.Errorf("joining %s as %s: %s", read.Queue, read.Group, o.Error)
		}
	}
	if c.cfg.Writers > 0 {
		return attachTable(ctx, c.cfg.Database)
	}
	return nil
}

// Work runs all clients. It returns after stop has ended and the open requests are answered, or after ctx has ended.
func (c *Clients) Work(ctx, stop context.Context) {
	var all sync.WaitGroup
	for n := range c.cfg.Producers {
		one := c.client(fmt.Sprintf("producer-%d", n+1))
		all.Go(func() { one.produce(ctx, stop) })
	}
	for n := range c.cfg.SQLProducers {
		one := c.client(fmt.Sprintf("sql-producer-%d", n+1))
		all.Go(func() { one.produceSQL(ctx, stop, c.cfg.Database) })
	}
	for n := range c.cfg.Writers {
		one := c.client(fmt.Sprintf("writer-%d", n+1))
		all.Go(func() { one.produceRows(ctx, stop, c.cfg.Database) })
	}
	for n := range c.cfg.SQLConsumers {
		group := groups[n%len(groups)]
		one := c.client(fmt.Sprintf("%s-sql-%d", groupName(group), n+1))
		all.Go(func() { one.consumeSQL(ctx, stop, c.cfg.Database, group) })
	}
	for n := range c.awaitConsumers() {
		one := c.client(fmt.Sprintf("%s-%d", awaitGroup, n+1))
		all.Go(func() { one.consumeSQL(ctx, stop, c.cfg.Database, awaitGroup) })
	}
	for _, group := range groups {
		for n := range c.cfg.Consumers {
			one := c.client(fmt.Sprintf("%s-%d", groupName(group), n+1))
			all.Go(func() { one.consume(ctx, stop, group) })
		}
	}
	operator := c.client("operator")
	all.Go(func() { operator.redriveRandomly(ctx, stop) })
	c.workLossy(ctx, stop, &all)
	c.workSums(ctx, stop, &all)
	all.Go(func() { c.workGo(ctx, stop) })
	for n, url := range c.cfg.URLs {
		if c.cfg.Quiet {
			break
		}
		sender := c.client(fmt.Sprintf("malformed-%d", n+1))
		sender.urls = []string{url}
		all.Go(func() { sender.sendMalformed(ctx, stop) })
	}
	all.Wait()
}

// drainWait is the wait of the pops of the drain. During this time, leases of stopped consumers can end.
const drainWait = time.Second

// Drain completes all messages of every group, until left returns 0 or ctx ends. It makes poison messages dead
// letters at once, because a group that was sought back may receive many of them.
func (c *Clients) Drain(ctx context.Context, left func(ctx context.Context) (int64, error)) error {
	var all sync.WaitGroup
	done, finish := context.WithCancel(ctx)
	defer finish()
	queues := map[string][]string{}
	for _, read := range c.Reads() {
		queues[read.group()] = append(queues[read.group()], read.Queue)
	}
	for n, group := range slices.Sorted(maps.Keys(queues)) {
		one := c.client(fmt.Sprintf("drain-%d", n+1))
		mine := queues[group]
		all.Go(func() {
			defer one.http.CloseIdleConnections()
			for done.Err() == nil {
				for _, name := range mine {
					d, o := one.pop(ctx, popRequest{
						queue: name, group: group, batch: 1000, partitions: c.cfg.Partitions, wait: drainWait / time.Duration(len(mine)),
					})
					switch {
					case len(d.Messages) > 0:
						one.finish(ctx, d, d.finalVerdicts())
					case o.Outcome != history.Done:
						pause(done, idlePause)
					}
				}
			}
		})
	}
	var err error
	for {
		var rest int64
		if rest, err = left(ctx); err == nil && rest == 0 {
			break
		}
		if !pause(ctx, idlePause) {
			err = errors.Join(fmt.Errorf("draining: %d messages are left: %w", rest, ctx.Err()), err)
			break
		}
	}
	finish()
	all.Wait()
	return err
}
