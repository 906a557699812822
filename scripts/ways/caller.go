package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/belfry-mq/belfry/test/httpcall"
)

// caller is the address of a server.
type caller string

// delivery is a delivered message with its lease, in the form that an ack needs.
type delivery struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	LeaseID       string `json:"leaseId"`
	Status        string `json:"status"`
	ConsumerGroup string `json:"consumerGroup"`
}

const group = "readers"

func (c caller) send(ctx context.Context, method, target string, body any) ([]byte, error) {
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	reply, err := httpcall.Send(ctx, http.DefaultClient, string(c), httpcall.Call{Method: method, Target: target, Body: text})
	if err == nil && reply.Status >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: status %d: %s", method, target, reply.Status, reply.Raw)
	}
	return reply.Raw, err
}

// push pushes one message to a queue.
func (c caller) push(ctx context.Context, queue string) error {
	_, err := c.send(ctx, http.MethodPost, "/api/v1/push", map[string]any{
		"items": []map[string]any{{"queue": queue, "payload": map[string]int{"order": 1}}},
	})
	return err
}

// pop takes one message. It returns an error if there is not exactly one message.
func (c caller) pop(ctx context.Context, queue, query string) (delivery, error) {
	raw, err := c.send(ctx, http.MethodGet, "/api/v1/pop/queue/"+queue+"?batch=1&consumerGroup="+group+"&"+query, nil)
	if err != nil {
		return delivery{}, err
	}
	var answer struct{ Messages []delivery }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return delivery{}, fmt.Errorf("reading the answer of a pop: %w", err)
	}
	if len(answer.Messages) != 1 {
		return delivery{}, fmt.Errorf("a pop returned %d messages: %s", len(answer.Messages), raw)
	}
	return answer.Messages[0], nil
}

// drain pops and acknowledges the only message of a queue.
func (c caller) drain(ctx context.Context, queue string) error {
	_, err := c.pop(ctx, queue, "autoAck=true")
	return err
}

func (c caller) ack(ctx context.Context, message delivery) error {
	message.Status, message.ConsumerGroup = "completed", group
	_, err := c.send(ctx, http.MethodPost, "/api/v1/ack", message)
	return err
}
