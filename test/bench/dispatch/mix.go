package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	mixInstances  = 2
	mixQueues     = 4
	mixPartitions = 6
	// mixConsumers are those of one queue at one instance.
	mixConsumers = 3
	mixGroup     = "g"
	mixWait      = 5 * time.Second
	mixWarm      = 2 * time.Second
	mixBatch     = 10
	// mixPush is the most messages of one push to a partition.
	mixPush = 3
	// Between two pushes to a partition.
	mixGapLeast, mixGapSpread = 50 * time.Millisecond, 200 * time.Millisecond
	doubleAssignments         = "belfry_smart_poll_double_assignment_errors_total"
)

// measureMix: producers and consumers at two instances, all at once.
func measureMix(ctx context.Context, r *rig, out *report) (err error) {
	servers, database, err := r.alone(ctx, mixInstances)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	book := newLedger()
	consumers := newCrowd(ctx)
	for q := range mixQueues {
		for _, server := range servers {
			for range mixConsumers {
				consumers.join(func(ctx context.Context) error { return mixConsume(ctx, server.client, mixQueue(q), book) })
			}
		}
	}
	producers := newCrowd(consumers.ctx)
	end := time.Now().Add(mixWarm + r.mixFor)
	for q := range mixQueues {
		for p := range mixPartitions {
			to := lane{mixQueue(q), fmt.Sprintf("p%d", p)}
			producers.join(func(ctx context.Context) error { return mixProduce(ctx, servers, to, book, end) })
		}
	}
	// Until then groups are joined and partitions made.
	if err = pause(producers.ctx, mixWarm); err == nil {
		book.forgetTimes()
		err = r.forget(ctx, database)
	}
	if err = errors.Join(err, producers.group.Wait()); err == nil {
		err = book.drained(consumers.ctx)
	}
	if err = errors.Join(err, consumers.leave()); err != nil {
		return err
	}
	if err := book.search(ctx, servers[0].client, mixGroup); err != nil {
		return err
	}
	book.judge(out, "", true)
	for i, server := range servers {
		doubled, err := server.metric(ctx, doubleAssignments)
		if err != nil {
			return err
		}
		out.never(fmt.Sprintf("double assignments of instance %d", i+1), int(doubled))
	}
	fromAnswer, _ := book.times()
	out.note("messages pushed", fmt.Sprintf("%d, %.0f a second", book.measuredPushes(), float64(book.measuredPushes())/r.mixFor.Seconds()))
	out.note("answer of the push to answer of the pop, p50", millis(quantile(fromAnswer, 0.5)))
	out.note("answer of the push to answer of the pop, p99", millis(quantile(fromAnswer, 0.99)))
	all, err := r.statements(ctx, database)
	if err != nil {
		return err
	}
	out.remark("statements for each message (mean time)", describe(work(all), book.measuredPushes()))
	return nil
}

func mixQueue(q int) string { return fmt.Sprintf("mix-%d", q) }

// mixProduce pushes to one partition, each time at any of the instances, and
// waits for the answer before it pushes again: so the order is known.
func mixProduce(ctx context.Context, servers instances, to lane, book *ledger, end time.Time) error {
	for time.Now().Before(end) {
		items := make([]item, 1+rand.IntN(mixPush))
		numbers := make([]int, len(items))
		for i := range items {
			numbers[i] = book.next(to)
			items[i] = item{Queue: to.queue, Partition: to.partition, Payload: number{numbers[i]}}
		}
		sent, answered, err := servers[rand.IntN(len(servers))].push(ctx, items...)
		if err != nil {
			return err
		}
		for _, n := range numbers {
			book.stored(to, n, sent, answered)
		}
		if err := pause(ctx, mixGapLeast+rand.N(mixGapSpread)); err != nil {
			return err
		}
	}
	return nil
}

// mixConsume notes what comes before it acks it: nobody else can have the next
// message of the partition until then.
func mixConsume(ctx context.Context, c *client, queue string, book *ledger) error {
	call := popCall{queue: queue, group: mixGroup, wait: mixWait, batch: mixBatch}
	return consume(ctx, c, call, func(d delivery) error {
		for _, m := range d.Messages {
			book.popped(lane{queue, m.Partition}, m.Data.N, d.at)
		}
		// A lease that was taken is given back even when the measure is over.
		return c.ack(context.WithoutCancel(ctx), d, mixGroup)
	})
}
