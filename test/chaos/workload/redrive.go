package workload

import (
	"context"
	"net/http"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// The pauses between two redrives of an operator.
const (
	shortestRedrive = 200 * time.Millisecond
	longestRedrive  = 1200 * time.Millisecond
)

// putBack redrives dead letters of one group and queue at a time until stop ends.
func (c *client) putBack(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestRedrive, longestRedrive)) {
		partition := ""
		if c.chance(50) {
			partition = c.partition()
		}
		c.redrive(ctx, c.queue(), groups[c.choose.IntN(len(groups))], partition)
	}
}

// redrive puts all dead letters of a queue and group back, or those of one
// partition, and records it. What was not done in the time of one call leaves open
// which were.
func (c *client) redrive(ctx context.Context, queue, group, partition string) history.Operation {
	body := map[string]any{"queue": queue, "consumerGroup": groupName(group), "all": true}
	if partition != "" {
		body["partition"] = partition
	}
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.Redrive, Queue: queue, Partition: partition, Group: groupName(group),
	})
	got := c.send(ctx, http.MethodPost, "/api/v1/dlq/redrive", encode(body), 0)
	var told struct {
		Success   bool  `json:"success"`
		Matched   int64 `json:"matched"`
		Redriven  int64 `json:"redriven"`
		Remaining int64 `json:"remaining"`
	}
	c.judge(&o, got, &told)
	switch {
	case o.Outcome != history.Done:
	case !told.Success || told.Redriven > told.Matched:
		c.crew.complain("%s: %d of %d dead letters put back, success %t", c.name, told.Redriven, told.Matched, told.Success)
	case told.Remaining > 0:
		o.Outcome = history.Unknown
	}
	return c.recorder.End(o)
}
