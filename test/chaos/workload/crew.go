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

// AutoAckGroup is the only group some of whose pops consume at once: what such a
// pop of unknown outcome took is gone.
const AutoAckGroup = "careless"

// groups are the readers; the empty one is who names no group.
var groups = []string{"", "billing", "audit", AutoAckGroup}

const mostComplaints = 100

// Config says how large the workload is.
type Config struct {
	Seed uint64
	// URLs of the servers; every client uses all of them.
	URLs     []string
	Recorder *history.Recorder
	// Queues, Partitions of each, Producers, and Consumers of each group.
	Queues, Partitions, Producers, Consumers int
	// Database is where SQLProducers push by SQL, Writers write to an attached table,
	// and SQLConsumers pop and acknowledge by SQL; unless there is none, so do those of a
	// group that always wait to be told.
	Database                            *pgxpool.Pool
	SQLProducers, Writers, SQLConsumers int
}

// Crew is the clients. Its exported methods may be called while it works, except
// Resolve.
type Crew struct {
	cfg     Config
	clients int // made so far; before the work begins, then by Drain alone

	// malformed counts malformed requests: refused as they should be, not answered,
	// and answered with 503.
	malformed [3]atomic.Int64
	last      atomic.Int64 // of the latest delivery, on the recorder's clock
	messages  atomic.Int64 // delivered

	mu         sync.Mutex
	complaints []string
	suppressed int
	anonymous  map[int64][]string // marks of pushes without ids, by operation
	learned    map[string]string  // transaction id of a mark, from deliveries
}

// New makes a crew that has not begun.
func New(cfg Config) *Crew {
	return &Crew{cfg: cfg, anonymous: map[int64][]string{}, learned: map[string]string{}}
}

// Queues are the names of the queues.
func (c *Crew) Queues() []string {
	names := c.common()
	for _, a := range asides {
		names = append(names, a.queue)
	}
	return append(names, idleQueue)
}

// common are the queues that most clients use.
func (c *Crew) common() []string {
	names := make([]string, c.cfg.Queues)
	for i := range names {
		names[i] = queueName(i)
	}
	return names
}

// groupName is how the history and the tables name a group.
func groupName(group string) string {
	if group == "" {
		return queue.NoGroup
	}
	return group
}

// Read is a queue and one of the groups that read it.
type Read struct{ Queue, Group string }

// Reads are all there are, as the history and the tables name them.
func (c *Crew) Reads() []Read {
	var reads []Read
	for _, name := range c.common() {
		for _, group := range slices.Concat(groups, movedGroups) {
			reads = append(reads, Read{name, groupName(group)})
		}
		if c.toldConsumers() > 0 {
			reads = append(reads, Read{name, toldGroup})
		}
	}
	for _, a := range asides {
		for _, group := range a.groups() {
			reads = append(reads, Read{a.queue, group})
		}
	}
	for _, group := range idleGroups {
		reads = append(reads, Read{idleQueue, group})
	}
	return reads
}

// toldConsumers is how many read for toldGroup.
func (c *Crew) toldConsumers() int {
	if c.cfg.SQLConsumers == 0 {
		return 0
	}
	return toldConsumers
}

// Prepare configures the queues and makes every group known to each, so that
// every message is for all of them. It needs servers that work.
func (c *Crew) Prepare(ctx context.Context) error {
	operator := c.client("operator")
	defer operator.http.CloseIdleConnections()
	// In one of the common queues what failed rests, for less than anybody may wait.
	options := map[string]map[string]any{idleQueue: idleOptions, queueName(0): {"retryDelay": int(restFor.Milliseconds())}}
	for _, a := range asides {
		options[a.queue] = a.options
	}
	for _, name := range c.Queues() {
		all := map[string]any{"leaseTime": int(LeaseTime.Seconds()), "retryLimit": RetryLimit}
		maps.Copy(all, options[name])
		body := encode(map[string]any{"queue": name, "options": all})
		if got := operator.send(ctx, http.MethodPost, "/api/v1/configure", body, 0); got.status != http.StatusOK {
			return errors.Join(fmt.Errorf("configuring %s: status %d: %s", name, got.status, got.body), got.err)
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

// Work runs all clients until stop ends and what is in flight is answered, or
// until ctx ends.
func (c *Crew) Work(ctx, stop context.Context) {
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
	for n := range c.toldConsumers() {
		one := c.client(fmt.Sprintf("%s-%d", toldGroup, n+1))
		all.Go(func() { one.consumeSQL(ctx, stop, c.cfg.Database, toldGroup) })
	}
	for _, group := range groups {
		for n := range c.cfg.Consumers {
			one := c.client(fmt.Sprintf("%s-%d", groupName(group), n+1))
			all.Go(func() { one.consume(ctx, stop, group) })
		}
	}
	operator := c.client("operator")
	all.Go(func() { operator.putBack(ctx, stop) })
	c.workAside(ctx, stop, &all)
	for n, url := range c.cfg.URLs {
		vandal := c.client(fmt.Sprintf("vandal-%d", n+1))
		vandal.urls = []string{url}
		all.Go(func() { vandal.misbehave(ctx, stop) })
	}
	all.Wait()
}

// drainWait is how long a pop of the drain waits: leases of consumers that have
// gone must end first.
const drainWait = time.Second

// Drain reads and completes everything for every group, until left says that
// nothing is left, or ctx ends. Poison becomes dead letters at once: a group that was
// sought back may meet a lot of it.
func (c *Crew) Drain(ctx context.Context, left func(ctx context.Context) (int64, error)) error {
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
						one.finish(ctx, d, d.final())
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
			err = errors.Join(fmt.Errorf("draining: %d messages are left for some group: %w", rest, ctx.Err()), err)
			break
		}
	}
	finish()
	all.Wait()
	return err
}
