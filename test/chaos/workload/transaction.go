package workload

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// mostSuccessors is the maximum number of pushes in a transaction.
const mostSuccessors = 3

// ackOperation is an ack in a transaction. LeaseID may be empty, because the required leases also contain the lease.
type ackOperation struct {
	Type          string `json:"type"`
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	Status        string `json:"status"`
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	LeaseID       string `json:"leaseId,omitempty"`
}

// transaction acknowledges messages of a delivery and pushes items.
type transaction struct {
	name     string
	of       delivery
	verdicts []verdict
	items    []pushItem
	body     string // body of the request
}

// handOn completes the first messages of a delivery and pushes new messages to a queue, in one transaction. It stops
// before the first poison message, and acknowledges the remaining messages separately.
func (c *client) handOn(ctx context.Context, d delivery) {
	before, rest := d.untilPoison()
	if c.chance(15) { // after the end of the lease, the server must refuse the transaction
		pause(ctx, LeaseTime+overdue)
	}
	if len(before) > 0 {
		c.transacted++
		name := fmt.Sprintf("%s.t%d", c.name, c.transacted)
		to := c.queue()
		items := make([]pushItem, 1+c.choose.IntN(mostSuccessors))
		for i := range items {
			mark := fmt.Sprintf("%s.%d", name, i)
			items[i] = pushItem{Queue: to, Partition: c.partition(), TransactionID: mark, Payload: payload{Mark: mark, Poison: c.chance(poisoned)}}
		}
		c.transact(ctx, transaction{name: name, of: d, verdicts: before, items: items})
	}
	c.finish(ctx, d, rest)
}

// transact sends a transaction. It repeats the transaction while the outcome is unknown, and sometimes after a known
// success.
func (c *client) transact(ctx context.Context, t transaction) {
	operations := []any{map[string]any{"type": "push", "items": t.items}}
	named := c.chance(50)
	for _, v := range t.verdicts {
		op := ackOperation{Type: "ack", TransactionID: v.TransactionID, PartitionID: v.PartitionID, Status: v.status, ConsumerGroup: t.of.group}
		if named {
			op.LeaseID = t.of.LeaseID
		}
		operations = append(operations, op)
	}
	t.body = encode(map[string]any{"operations": operations, "requiredLeases": []string{t.of.LeaseID}})
	result := c.transactOnce(ctx, t)
	for again := 0; again < mostRepeats && result.Outcome == history.Unknown; again++ {
		if !pause(ctx, c.upTo(shortestPush, longestPush)) {
			return
		}
		result = c.transactOnce(ctx, t)
	}
	if result.Outcome == history.Done && c.chance(needless) {
		result = c.transactOnce(ctx, t)
		if result.Outcome == history.Refused && !mayRefuseRepeat(t, result.Error) {
			c.clients.complain("%s: transaction %s was applied, but its repetition was refused", c.name, t.name)
		}
	}
}

// mayRefuseRepeat reports whether the server may answer the repetition of an applied transaction with this error. A
// 503 is allowed, and for a lossy queue the answer that a message does not exist.
func mayRefuseRepeat(t transaction, err string) bool {
	return strings.HasPrefix(err, "503 ") || isLossy(t.of.queue) && strings.HasSuffix(err, "Message not found")
}

// transactOnce sends a transaction, records its push and its acks, and returns the push.
func (c *client) transactOnce(ctx context.Context, t transaction) history.Operation {
	push := history.Operation{Client: c.name, Kind: history.Push, Queue: t.items[0].Queue, LeaseID: t.of.LeaseID, Transaction: t.name}
	ack := history.Operation{
		Client: c.name, Kind: history.Ack, Queue: t.of.queue, Group: groupName(t.of.group), LeaseID: t.of.LeaseID, Transaction: t.name,
	}
	for _, item := range t.items {
		push.Items = append(push.Items, item.item())
	}
	for _, v := range t.verdicts {
		ack.Items = append(ack.Items, history.Item{
			Partition: v.Partition, TransactionID: v.TransactionID, MessageID: v.ID, Status: v.status,
		})
	}
	push, ack = c.recorder.Begin(push), c.recorder.Begin(ack)
	got := c.send(ctx, http.MethodPost, "/api/v1/transaction", t.body, 0)
	var result struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
		Results []struct {
			MessageID string `json:"messageId"`
		} `json:"results"`
	}
	c.readAnswer(&push, got, &result)
	switch {
	case push.Outcome != history.Done:
	case !result.Success:
		push.Outcome, push.Error = history.Refused, result.Error
	case len(result.Results) != len(t.items)+len(t.verdicts):
		c.clients.complain("%s: a transaction with %d operations got %d results", c.name, len(t.items)+len(t.verdicts), len(result.Results))
		push.Outcome = history.Unknown
	default:
		for i := range push.Items {
			push.Items[i].MessageID = result.Results[i].MessageID
		}
		for i := range ack.Items {
			ack.Items[i].Accepted = true
		}
	}
	ack.Outcome, ack.Error = push.Outcome, push.Error
	c.recorder.End(ack)
	return c.recorder.End(push)
}
