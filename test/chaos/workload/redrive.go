package workload

import (
	"context"
	"net/http"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// These constants limit the random pauses between two redrives of an operator.
const (
	shortestRedrive = 200 * time.Millisecond
	longestRedrive  = 1200 * time.Millisecond
)

// redriveRandomly redrives dead letters of a random group and queue until stop ends.
func (c *client) redriveRandomly(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	for pause(stop, c.upTo(shortestRedrive, longestRedrive)) {
		partition := ""
		if c.chance(50) {
			partition = c.partition()
		}
		c.redrive(ctx, c.queue(), groups[c.choose.IntN(len(groups))], partition)
	}
}

// redrive redrives all dead letters of a queue and group, or of one partition, and records the operation. If the
// answer says that some dead letters remain, the outcome is unknown.
func (c *client) redrive(ctx context.Context, queue, group, partition string) history.Operation {
	body := map[string]any{"queue": queue, "consumerGroup": groupName(group), "all": true}
	if partition != "" {
		body["partition"] = partition
	}
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.Redrive, Queue: queue, Partition: partition, Group: groupName(group),
	})
	got := c.send(ctx, http.MethodPost, "/api/v1/dlq/redrive", encode(body), 0)
	var result struct {
		Success   bool  `json:"success"`
		Matched   int64 `json:"matched"`
		Redriven  int64 `json:"redriven"`
		Remaining int64 `json:"remaining"`
	}
	c.readAnswer(&o, got, &result)
	switch {
	case o.Outcome != history.Done:
	case !result.Success || result.Redriven > result.Matched:
		c.clients.complain("%s: %d of %d dead letters redriven, success %t", c.name, result.Redriven, result.Matched, result.Success)
	case result.Remaining > 0:
		o.Outcome = history.Unknown
	}
	return c.recorder.End(o)
}
