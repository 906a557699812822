package workload

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// mostSuccessors is how many messages a transaction pushes at most.
const mostSuccessors = 3

// ackOperation acknowledges in a transaction. Its lease is either in it or only
// among the required ones.
type ackOperation struct {
	Type          string `json:"type"`
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	Status        string `json:"status"`
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	LeaseID       string `json:"leaseId,omitempty"`
}

// handOn completes the first messages of a delivery and pushes others to some
// queue, in one transaction. It ends before poison, which the rest is for.
func (c *client) handOn(ctx context.Context, d delivery) {
	verdicts := d.digest("completed")
	n := 0
	for n < len(verdicts) && verdicts[n].status == "completed" {
		n++
	}
	if c.chance(15) { // too late: it must be refused
		pause(ctx, LeaseTime+overdue)
	}
	if n > 0 {
		c.transacted++
		name := fmt.Sprintf("%s.t%d", c.name, c.transacted)
		to := c.queue()
		items := make([]pushItem, 1+c.choose.IntN(mostSuccessors))
		for i := range items {
			mark := fmt.Sprintf("%s.%d", name, i)
			items[i] = pushItem{Queue: to, Partition: c.partition(), TransactionID: mark, Payload: payload{Mark: mark, Poison: c.chance(poisoned)}}
		}
		c.transact(ctx, name, d, verdicts[:n], items)
	}
	if n < len(verdicts) {
		c.finish(ctx, d, verdicts[n:])
	}
}

// transact sends a transaction, and as it was again while its outcome is unknown
// and now and then although it is known.
func (c *client) transact(ctx context.Context, name string, d delivery, verdicts []verdict, items []pushItem) {
	operations := []any{map[string]any{"type": "push", "items": items}}
	named := c.chance(50)
	for _, v := range verdicts {
		op := ackOperation{Type: "ack", TransactionID: v.TransactionID, PartitionID: v.PartitionID, Status: v.status, ConsumerGroup: d.group}
		if named {
			op.LeaseID = d.LeaseID
		}
		operations = append(operations, op)
	}
	body := encode(map[string]any{"operations": operations, "requiredLeases": []string{d.LeaseID}})
	told := c.transactOnce(ctx, name, d, verdicts, items, body)
	for again := 0; again < mostRepeats && told.Outcome == history.Unknown; again++ {
		if !pause(ctx, c.upTo(shortestPush, longestPush)) {
			return
		}
		told = c.transactOnce(ctx, name, d, verdicts, items, body)
	}
	if told.Outcome == history.Done && c.chance(needless) {
		told = c.transactOnce(ctx, name, d, verdicts, items, body)
		// A 503 does not look at it.
		if told.Outcome == history.Refused && !strings.HasPrefix(told.Error, "503 ") {
			c.crew.complain("%s: transaction %s was applied, and refused when it was sent again", c.name, name)
		}
	}
}

// transactOnce sends a transaction, records its two parts and returns the first.
func (c *client) transactOnce(
	ctx context.Context, name string, d delivery, verdicts []verdict, items []pushItem, body string,
) history.Operation {
	push := history.Operation{Client: c.name, Kind: history.Push, Queue: items[0].Queue, LeaseID: d.LeaseID, Transaction: name}
	ack := history.Operation{
		Client: c.name, Kind: history.Ack, Queue: d.queue, Group: groupName(d.group), LeaseID: d.LeaseID, Transaction: name,
	}
	for _, item := range items {
		push.Items = append(push.Items, item.item())
	}
	for _, v := range verdicts {
		ack.Items = append(ack.Items, history.Item{
			Partition: v.Partition, TransactionID: v.TransactionID, MessageID: v.ID, Status: v.status,
		})
	}
	push, ack = c.recorder.Begin(push), c.recorder.Begin(ack)
	got := c.send(ctx, http.MethodPost, "/api/v1/transaction", body, 0)
	var told struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
		Results []struct {
			MessageID string `json:"messageId"`
		} `json:"results"`
	}
	c.judge(&push, got, &told)
	switch {
	case push.Outcome != history.Done:
	case !told.Success:
		push.Outcome, push.Error = history.Refused, told.Error
	case len(told.Results) != len(items)+len(verdicts):
		c.crew.complain("%s: a transaction of %d operations, %d answered", c.name, len(items)+len(verdicts), len(told.Results))
		push.Outcome = history.Unknown
	default:
		for i := range push.Items {
			push.Items[i].MessageID = told.Results[i].MessageID
		}
		for i := range ack.Items {
			ack.Items[i].Accepted = true
		}
	}
	ack.Outcome, ack.Error = push.Outcome, push.Error
	c.recorder.End(ack)
	return c.recorder.End(push)
}
