package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	manyQueues  = 2000
	manyWaiting = 5000
	manyRate    = 200 // pushes a second
	manyGroup   = "g"
	// manySettle is how long after the arrival of all the memory is read.
	manySettle = 3 * time.Second
)

// measureMany: many requests wait on many groups, and messages come to some of
// them all the time.
func measureMany(ctx context.Context, r *rig, out *report) (err error) {
	if err := enoughFiles(manyWaiting); err != nil {
		return err
	}
	database, err := r.database(ctx)
	if err != nil {
		return err
	}
	queues, err := r.queuesBefore(ctx, database)
	if err != nil {
		return err
	}
	// A server that has done nothing yet: its memory is what the waiting is
	// compared with.
	servers, err := r.serve(ctx, database, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	server := servers[0]
	before, err := server.account(ctx)
	if err != nil {
		return err
	}
	book := newLedger()
	waiting := newCrowd(ctx)
	for i := range manyWaiting {
		queue := queues[i%manyQueues]
		call := popCall{queue: queue, group: manyGroup, wait: longWait, autoAck: true}
		waiting.join(func(ctx context.Context) error {
			return consume(ctx, server.client, call, func(d delivery) error {
				for _, m := range d.Messages {
					book.popped(lane{queue, m.Partition}, m.Data.N, d.at)
				}
				return nil
			})
		})
	}
	err = r.manyPushes(waiting.ctx, server, database, queues, book, before, out)
	if err = errors.Join(err, waiting.leave()); err != nil {
		return err
	}
	if err := book.search(ctx, server.client, manyGroup); err != nil {
		return err
	}
	// Several consume a queue without a lease, so their notes are in no order.
	book.judge(out, "", false)
	fromAnswer, _ := book.times()
	out.note(fmt.Sprintf("%d messages to %d groups, p50", len(fromAnswer), manyQueues), millis(quantile(fromAnswer, 0.5)))
	out.quick("answer of the push to answer of the pop, p99", quantile(fromAnswer, 0.99), 50*time.Millisecond)
	return r.bareMemory(ctx, out)
}

// queuesBefore makes the queues with a server of their own.
func (r *rig) queuesBefore(ctx context.Context, database string) ([]string, error) {
	servers, err := r.serve(ctx, database, 1)
	if err != nil {
		return nil, err
	}
	queues, err := makeQueues(ctx, servers[0].client, "many", manyQueues, nil)
	return queues, errors.Join(err, servers.stop())
}

// manyPushes waits for all to arrive, reads the memory, and pushes.
func (r *rig) manyPushes(ctx context.Context, server *instance, database string, queues []string, book *ledger, before account, out *report) error {
	if err := r.arrived(ctx, server, database, manyWaiting); err != nil {
		return err
	}
	if err := pause(ctx, manySettle); err != nil {
		return err
	}
	after, err := server.account(ctx)
	if err != nil {
		return err
	}
	out.below(fmt.Sprintf("memory for each of %d waiting requests", manyWaiting), "%.1f KiB", perRequest(before.resident, after.resident), 20)
	out.remark("where the memory of a waiting request is, by the server's own account", after.since(before))
	if err := r.forget(ctx, database); err != nil {
		return err
	}
	pushing := newCrowd(ctx)
	tick := time.NewTicker(time.Second / manyRate)
	defer tick.Stop()
	end := time.NewTimer(r.manyFor)
	defer end.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
			at := lane{queues[rand.IntN(len(queues))], "Default"}
			n := book.next(at)
			pushing.join(func(ctx context.Context) error {
				sent, answered, err := server.push(ctx, item{Queue: at.queue, Partition: at.partition, Payload: number{n}})
				if err == nil {
					book.stored(at, n, sent, answered)
				}
				return err
			})
		case <-end.C:
			running = false
		case <-pushing.ctx.Done():
			running = false
		}
	}
	if err := pushing.group.Wait(); err != nil {
		return err
	}
	if err := book.drained(ctx); err != nil {
		return err
	}
	if after, err = server.account(ctx); err != nil {
		return err
	}
	out.remark("the same after the pushes", after.since(before))
	all, err := r.statements(ctx, database)
	if err != nil {
		return err
	}
	out.remark("statements for each message (mean time)", describe(work(all), book.measuredPushes()))
	return nil
}

// bareMemory reports what as many requests cost a server that only holds them.
func (r *rig) bareMemory(ctx context.Context, out *report) (err error) {
	bare, err := r.startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, instances{bare}.stop()) }()
	before, err := bare.memory()
	if err != nil {
		return err
	}
	waiting := newCrowd(ctx)
	defer func() { err = errors.Join(err, waiting.leave()) }()
	for range manyWaiting {
		waiting.join(func(ctx context.Context) error {
			return consume(ctx, bare.client, popCall{queue: "bare", wait: longWait}, unexpected)
		})
	}
	if err := pause(waiting.ctx, manySettle); err != nil {
		return err
	}
	after, err := bare.memory()
	if err != nil {
		return err
	}
	out.note("the same at the bare server", fmt.Sprintf("%.1f KiB", perRequest(before, after)))
	return nil
}

func perRequest(before, after int64) float64 { return float64(after-before) / 1024 / manyWaiting }

// accountMetrics are what a Go server tells of its memory, in bytes but for the
// first.
var accountMetrics = []struct{ name, what string }{
	{"go_goroutines", "goroutines"},
	{"go_memstats_stack_inuse_bytes", "stacks"},
	{"go_memstats_heap_alloc_bytes", "heap with garbage not yet collected"},
	{"go_memstats_heap_inuse_bytes", "heap pages in use"},
	{"go_memstats_next_gc_bytes", "heap at which garbage is collected next"},
}

// account is the memory of a server: what it has of the machine, and what it
// says of itself.
type account struct {
	resident int64
	metrics  []float64
}

func (in *instance) account(ctx context.Context) (account, error) {
	resident, err := in.memory()
	if err != nil {
		return account{}, err
	}
	a := account{resident: resident}
	for _, m := range accountMetrics {
		value, err := in.metric(ctx, m.name)
		if err != nil {
			return account{}, err
		}
		a.metrics = append(a.metrics, value)
	}
	return a, nil
}

// since describes what was added, for each waiting request.
func (a account) since(before account) string {
	var parts []string
	for i, m := range accountMetrics {
		each := (a.metrics[i] - before.metrics[i]) / manyWaiting
		if i == 0 {
			parts = append(parts, fmt.Sprintf("%.1f %s", each, m.what))
			continue
		}
		parts = append(parts, fmt.Sprintf("%.1f KiB %s", each/1024, m.what))
	}
	return strings.Join(parts, ", ")
}
