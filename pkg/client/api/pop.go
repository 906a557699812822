package api

import (
	"bytes"
	"encoding/json"
	"time"
)

// Delivery is the answer of a pop that has messages. T is the type of their payloads.
type Delivery[T any] struct {
	Success bool `json:"success"`
	// The queue of all messages.
	Queue Name `json:"queue"`
	// The partition of the first message.
	Partition   Name `json:"partition"`
	PartitionID ID   `json:"partitionId"`
	// The lease of all messages. Empty with `autoAck`.
	LeaseID           string `json:"leaseId"`
	Group             Name   `json:"consumerGroup"`
	PartitionsClaimed int    `json:"partitionsClaimed"`
	// The messages of one partition after the other, in order within each partition.
	Messages []*Message[T] `json:"messages"`
}

// Message is a delivered message. T is the type of its payload.
type Message[T any] struct {
	ID            string `json:"id"`
	TransactionID string `json:"transactionId"`
	// A UUID, or null.
	TraceID string `json:"traceId"`
	// The payload as pushed.
	Data T `json:"data"`
	// The name of the producer in its token, or null.
	ProducerSub string `json:"producerSub"`
	// When the message was stored, in microseconds.
	CreatedAt   time.Time `json:"createdAt"`
	PartitionID ID        `json:"partitionId"`
	Partition   Name      `json:"partition"`
	// The lease of the delivery. Empty with `autoAck`.
	LeaseID string `json:"leaseId"`
	Group   Name   `json:"consumerGroup"`
	// The number of deliveries of the first message of the partition, including this one. It is above 1 after a failure, an ended
	// lease, or a crash. 0 with `autoAck`.
	Attempt int `json:"attempt"`
	// The queue. The server names it once in the answer, and the client here.
	Queue Name `json:"queue,omitzero"`
}

// MarshalJSON encodes the message as the server answered it, and with its queue if it is known.
func (m Message[T]) MarshalJSON() ([]byte, error) {
	orNull := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		ID            string  `json:"id"`
		TransactionID string  `json:"transactionId"`
		TraceID       *string `json:"traceId"`
		Data          T       `json:"data"`
		ProducerSub   *string `json:"producerSub"`
		CreatedAt     string  `json:"createdAt"`
		PartitionID   string  `json:"partitionId"`
		Partition     string  `json:"partition"`
		LeaseID       string  `json:"leaseId"`
		Group         string  `json:"consumerGroup"`
		Attempt       int     `json:"attempt"`
		Queue         string  `json:"queue,omitzero"`
	}{
		m.ID, m.TransactionID, orNull(m.TraceID), m.Data, orNull(m.ProducerSub), m.CreatedAt.UTC().Format("2006-01-02T15:04:05.000000Z"),
		m.PartitionID, m.Partition, m.LeaseID, m.Group, m.Attempt, m.Queue,
	})
	return bytes.TrimSpace(buffer.Bytes()), err
}

// Ack returns an acknowledgment of the message. reason may be nil.
func (m *Message[T]) Ack(status AckStatus, reason error) Ack {
	ack := Ack{TransactionID: m.TransactionID, PartitionID: m.PartitionID, Status: status, LeaseID: m.LeaseID, Group: m.Group}
	if reason != nil {
		ack.Error = reason.Error()
	}
	return ack
}
