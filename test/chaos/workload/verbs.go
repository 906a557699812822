package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// payload is the payload of every message of the workload.
type payload struct {
	// Mark is unique to the message, even without a transaction id.
	Mark string `json:"mark"`
	// Poison means that no consumer can ever process the message.
	Poison bool `json:"poison,omitempty"`
}

type pushItem struct {
	Queue         string  `json:"queue"`
	Partition     string  `json:"partition"`
	TransactionID string  `json:"transactionId,omitempty"`
	DelaySeconds  float64 `json:"delaySeconds,omitempty"`
	Payload       payload `json:"payload"`
}

// item returns the item for the history.
func (p *pushItem) item() history.Item {
	return history.Item{
		Partition: p.Partition, TransactionID: p.TransactionID, Delay: time.Duration(p.DelaySeconds * float64(time.Second)),
	}
}

type pushed struct {
	Status        string `json:"status"`
	TransactionID string `json:"transaction_id"`
	MessageID     string `json:"message_id"`
	PartitionID   string `json:"partition_id"`
}

// push pushes items of one queue and records the push.
func (c *client) push(ctx context.Context, items []pushItem) history.Operation {
	o, _ := c.pushTo(ctx, items)
	return o
}

// pushTo is push with the answer as an additional result.
func (c *client) pushTo(ctx context.Context, items []pushItem) (history.Operation, []pushed) {
	o := history.Operation{Client: c.name, Kind: history.Push, Queue: items[0].Queue}
	for _, item := range items {
		o.Items = append(o.Items, item.item())
	}
	o = c.recorder.Begin(o)
	c.clients.expect(o.ID, items)
	got := c.send(ctx, http.MethodPost, "/api/v1/push", encode(map[string]any{"items": items}), 0)
	var result []pushed
	c.readAnswer(&o, got, &result)
	if o.Outcome == history.Done && len(result) != len(items) {
		c.clients.complain("%s: a push of %d items got %d results", c.name, len(items), len(result))
		o.Outcome = history.Unknown
	}
	if o.Outcome == history.Done {
		for i, one := range result {
			o.Items[i].TransactionID, o.Items[i].MessageID = one.TransactionID, one.MessageID
			switch one.Status {
			case "queued":
			case "duplicate":
				o.Items[i].Duplicate = true
			default:
				c.clients.complain("%s: an item was pushed with status %q", c.name, one.Status)
			}
		}
	}
	return c.recorder.End(o), result
}

// popRequest has the parameters of a pop. An empty partition means any partition.
type popRequest struct {
	queue, partition, group string
	batch, partitions       int
	wait                    time.Duration
	autoAck                 bool
}

type message struct {
	ID            string  `json:"id"`
	TransactionID string  `json:"transactionId"`
	PartitionID   string  `json:"partitionId"`
	Partition     string  `json:"partition"`
	Data          payload `json:"data"`
}

// delivery is the result of a pop.
type delivery struct {
	popRequest
	LeaseID  string    `json:"leaseId"`
	Messages []message `json:"messages"`
}

// pop pops and records the operation. The end of ctx cancels the request.
func (c *client) pop(ctx context.Context, r popRequest) (delivery, history.Operation) {
	query := url.Values{
		"batch": {strconv.Itoa(r.batch)}, "partitions": {strconv.Itoa(r.partitions)},
	}
	if r.group != "" {
		query.Set("consumerGroup", r.group)
	}
	if r.wait > 0 {
		query.Set("wait", "true")
		query.Set("timeout", strconv.FormatInt(r.wait.Milliseconds(), 10))
	}
	if r.autoAck {
		query.Set("autoAck", "true")
	}
	target := "/api/v1/pop/queue/" + r.queue
	if r.partition != "" {
		target += "/partition/" + r.partition
	}
	o := c.recorder.Begin(history.Operation{
		Client: c.name, Kind: history.Pop, Queue: r.queue, Partition: r.partition, Group: groupName(r.group), Wait: r.wait, AutoAck: r.autoAck,
	})
	got := c.send(ctx, http.MethodGet, target+"?"+query.Encode(), "", r.wait)
	d := delivery{popRequest: r}
	c.readAnswer(&o, got, &d)
	if o.Outcome != history.Done {
		d.Messages = nil
	}
	if len(d.Messages) > r.batch {
		c.clients.complain("%s: a pop with batch %d returned %d messages", c.name, r.batch, len(d.Messages))
	}
	o.LeaseID = d.LeaseID
	for _, m := range d.Messages {
		o.Items = append(o.Items, history.Item{Partition: m.Partition, TransactionID: m.TransactionID, MessageID: m.ID})
		c.clients.learn(m.Data.Mark, m.TransactionID)
	}
	if len(d.Messages) > 0 {
		c.clients.noteDelivery()
		c.clients.noteTarget(d)
	}
	return d, c.recorder.End(o)
}

// verdict is the status of a message in an ack.
type verdict struct {
	message
	status string // completed, failed or retry
}

type ackItem struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	Status        string `json:"status"`
	LeaseID       string `json:"leaseId"`
	Error         string `json:"error,omitempty"`
	ConsumerGroup string `json:"consumerGroup,omitempty"`
}

type acked struct {
	Success      bool `json:"success"`
	DeadLettered bool `json:"dlq"`
}

// ack sends verdicts for one delivery under a lease in one request, and records the ack. For a single verdict it may
// use the endpoint for single acks.
func (c *client) ack(ctx context.Context, d delivery, lease string, verdicts []verdict) history.Operation {
	o := history.Operation{Client: c.name, Kind: history.Ack, Queue: d.queue, Group: groupName(d.group), LeaseID: lease}
	var items []ackItem
	for _, v := range verdicts {
		item := ackItem{TransactionID: v.TransactionID, PartitionID: v.PartitionID, Status: v.status, LeaseID: lease}
		if v.status == "failed" {
			item.Error = "it did not work"
		}
		items = append(items, item)
		o.Items = append(o.Items, history.Item{
			Partition: v.Partition, TransactionID: v.TransactionID, MessageID: v.ID, Status: v.status,
		})
	}
	target, body := "/api/v1/ack/batch", any(map[string]any{"acknowledgments": items, "consumerGroup": d.group})
	if len(items) == 1 && c.chance(50) {
		items[0].ConsumerGroup = d.group
		target, body = "/api/v1/ack", items[0]
	}
	o = c.recorder.Begin(o)
	got := c.send(ctx, http.MethodPost, target, encode(body), 0)
	var result []acked
	c.readAnswer(&o, got, &result)
	if o.Outcome == history.Done && len(result) != len(items) {
		c.clients.complain("%s: %d acks got %d results", c.name, len(items), len(result))
		o.Outcome = history.Unknown
	}
	if o.Outcome == history.Done {
		for i, one := range result {
			o.Items[i].Accepted, o.Items[i].DeadLettered = one.Success, one.DeadLettered
		}
	}
	return c.recorder.End(o)
}

// extend extends a lease and records the operation.
func (c *client) extend(ctx context.Context, d delivery, by time.Duration) history.Operation {
	o := c.recorder.Begin(history.Operation{Client: c.name, Kind: history.Extend, Queue: d.queue, Group: groupName(d.group), LeaseID: d.LeaseID})
	body := fmt.Sprintf(`{"seconds":%d}`, int(by.Seconds()))
	got := c.send(ctx, http.MethodPost, "/api/v1/lease/"+d.LeaseID+"/extend", body, 0)
	var result struct {
		Success bool `json:"success"`
	}
	c.readAnswer(&o, got, &result)
	if o.Outcome == history.Done && !result.Success {
		c.clients.complain("%s: an extension with status %d did not succeed: %s", c.name, got.Status, got.Raw)
	}
	return c.recorder.End(o)
}
