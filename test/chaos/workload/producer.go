package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// These constants are percentages of the pushes of a producer.
const (
	withoutIDs = 15 // without transaction ids, so never repeated
	needless   = 5  // repeated although the outcome is known
	delayed    = 3  // with a delay for some of its messages
	poisoned   = 1  // percentage of messages that no consumer can process
	// mostRepeats is the maximum number of repetitions of a push of unknown outcome.
	mostRepeats = 5
	mostItems   = 10
)

// These constants limit the random pauses between two pushes of a producer.
const (
	shortestPush = 10 * time.Millisecond
	longestPush  = 150 * time.Millisecond
)

// These constants limit the delays of delayed messages. A delayed message also delays the messages after it.
const (
	shortestDelay = 100 * time.Millisecond
	longestDelay  = 1500 * time.Millisecond
)

// produce pushes until stop ends. Then it finishes the open push with ctx.
func (c *client) produce(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	for n := 0; pause(stop, c.upTo(shortestPush, longestPush)); n++ {
		anonymous, late := c.chance(withoutIDs), c.chance(delayed)
		items := make([]pushItem, 1+c.choose.IntN(mostItems))
		where, partition := c.queue(), c.partition()
		for i := range items {
			mark := fmt.Sprintf("%s.%d.%d", c.name, n, i)
			items[i] = pushItem{Queue: where, Partition: partition, TransactionID: mark, Payload: payload{mark, c.chance(poisoned)}}
			if late && c.chance(30) {
				items[i].DelaySeconds = c.upTo(shortestDelay, longestDelay).Round(time.Millisecond).Seconds()
			}
			if anonymous {
				items[i].TransactionID = ""
			}
			if c.chance(20) {
				partition = c.partition()
			}
		}
		o := c.push(ctx, items)
		if anonymous {
			continue
		}
		for again := 0; again < mostRepeats && o.Outcome != history.Done; again++ {
			if !pause(stop, c.upTo(shortestPush, longestPush)) {
				return
			}
			o = c.push(ctx, items)
		}
		if c.chance(needless) {
			// A repetition may have only some of the items, in another order.
			some := slices.Clone(items[:1+c.choose.IntN(len(items))])
			c.choose.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			c.push(ctx, some)
		}
	}
}
