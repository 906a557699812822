package api

import (
	"bytes"
	"encoding/json"
	"time"
)

// Delivery is the answer of a pop that has messages. T is the type of their payloads.
type Delivery[T any] struct {
	Success           bool   `json:"success"`
	Queue             Name   `json:"queue"`     // The queue of all messages.
	Partition         Name   `json:"partition"` // The partition of the first message.
	PartitionID       ID     `json:"partitionId"`
	LeaseID           string `json:"leaseId"` // The lease of all messages. Empty with `autoAck`.
	Group             Name   `json:"consumerGroup"`
	PartitionsClaimed int    `json:"partitionsClaimed"`
	// The messages, grouped by partition and ordered within each partition.
	Messages []*Message[T] `json:"messages"`
}

// Message is a delivered message. T is the type of its payload.
type Message[T any] struct {
	ID            string    `json:"id"`
	TransactionID string    `json:"transactionId"`
	TraceID       string    `json:"traceId"`     // A UUID, or null.
	Data          T         `json:"data"`        // The payload as pushed.
	ProducerSub   string    `json:"producerSub"` // The name of the producer in its token, or null.
	CreatedAt     time.Time `json:"createdAt"`   // When the message was stored, with microseconds.
	PartitionID   ID        `json:"partitionId"`
	Partition     Name      `json:"partition"`
	LeaseID       string    `json:"leaseId"` // The lease of the delivery. Empty with `autoAck`.
	Group         Name      `json:"consumerGroup"`
	// The number of deliveries of the first message of the partition, including this delivery. It is above 1 after a failure,
	// an ended lease, or a crash. 0 with `autoAck`.
	Attempt int               `json:"attempt"`
	Headers map[string]string `json:"headers,omitzero"` // The headers, with names in lower case. Absent if the message has none.
	Queue   Name              `json:"queue,omitzero"`   // The queue. The server does not send this member: the client copies it from the answer.
}

// MarshalJSON encodes the message as the server sent it, and adds the queue unless it is empty.
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
		ID            string            `json:"id"`
		TransactionID string            `json:"transactionId"`
		TraceID       *string           `json:"traceId"`
		Data          T                 `json:"data"`
		ProducerSub   *string           `json:"producerSub"`
		CreatedAt     string            `json:"createdAt"`
		PartitionID   string            `json:"partitionId"`
		Partition     string            `json:"partition"`
		LeaseID       string            `json:"leaseId"`
		Group         string            `json:"consumerGroup"`
		Attempt       int               `json:"attempt"`
		Headers       map[string]string `json:"headers,omitzero"`
		Queue         string            `json:"queue,omitzero"`
	}{
		m.ID, m.TransactionID, orNull(m.TraceID), m.Data, orNull(m.ProducerSub), m.CreatedAt.UTC().Format("2006-01-02T15:04:05.000000Z"),
		m.PartitionID, m.Partition, m.LeaseID, m.Group, m.Attempt, m.Headers, m.Queue,
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
