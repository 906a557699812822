package workload

import (
	"context"
	"fmt"
	"net/http"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// completeTogether completes the first messages of a delivery, up to a poison message, in a transaction of acks.
// Sometimes it adds a message of the previous delivery, whose lease has usually ended. In this case no ack of the
// transaction may take effect.
func (c *client) completeTogether(ctx context.Context, d delivery) {
	before, rest := d.untilPoison()
	if c.chance(15) {
		pause(ctx, LeaseTime+overdue)
	}
	if len(before) > 0 {
		c.transacted++
		name := fmt.Sprintf("%s.a%d", c.name, c.transacted)
		parts := []part{{d, before}}
		if last := c.before; c.chance(30) && len(last.Messages) > 0 && !last.Messages[0].Data.Poison {
			parts = append(parts, part{last, last.verdicts("completed")[:1]})
		}
		outcome := c.completeOnce(ctx, name, parts)
		for again := 0; again < mostRepeats && outcome == history.Unknown; again++ {
			if !pause(ctx, c.upTo(shortestPush, longestPush)) {
				return
			}
			outcome = c.completeOnce(ctx, name, parts)
		}
	}
	c.finish(ctx, d, rest)
}

// part has the verdicts of a transaction for the messages of one delivery.
type part struct {
	of       delivery
	verdicts []verdict
}

// completeOnce sends a transaction without pushes. It records one operation for each part.
func (c *client) completeOnce(ctx context.Context, name string, parts []part) history.Outcome {
	var acks []any
	operations := make([]history.Operation, len(parts))
	for i, p := range parts {
		o := history.Operation{
			Client: c.name, Kind: history.Ack, Queue: p.of.queue, Group: groupName(p.of.group), LeaseID: p.of.LeaseID, Transaction: name,
		}
		for _, v := range p.verdicts {
			o.Items = append(o.Items, history.Item{
				Partition: v.Partition, TransactionID: v.TransactionID, MessageID: v.ID, Status: v.status,
			})
			acks = append(acks, ackOperation{
				Type: "ack", TransactionID: v.TransactionID, PartitionID: v.PartitionID, Status: v.status, ConsumerGroup: p.of.group,
				LeaseID: p.of.LeaseID,
			})
		}
		operations[i] = c.recorder.Begin(o)
	}
	got := c.send(ctx, http.MethodPost, "/api/v1/transaction", encode(map[string]any{"operations": acks}), 0)
	var result struct {
		Success bool             `json:"success"`
		Error   string           `json:"error"`
		Results []map[string]any `json:"results"`
	}
	var all history.Operation
	c.readAnswer(&all, got, &result)
	switch {
	case all.Outcome != history.Done:
	case !result.Success:
		all.Outcome, all.Error = history.Refused, result.Error
	case len(result.Results) != len(acks):
		c.clients.complain("%s: a transaction with %d acks got %d results", c.name, len(acks), len(result.Results))
		all.Outcome = history.Unknown
	}
	for _, o := range operations {
		o.Outcome, o.Error = all.Outcome, all.Error
		for i := range o.Items {
			o.Items[i].Accepted = all.Outcome == history.Done
		}
		c.recorder.End(o)
	}
	return all.Outcome
}
