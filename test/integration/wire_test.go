package integration_test

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// item is one message of a push.
type item struct {
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition,omitempty"`
	TransactionID string          `json:"transactionId,omitempty"`
	TraceID       string          `json:"traceId,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	DelaySeconds  float64         `json:"delaySeconds,omitempty"`
	VisibleAt     string          `json:"visibleAt,omitempty"`
}

// pushed is the answer to one item.
type pushed struct {
	Index         int     `json:"index"`
	Status        string  `json:"status"`
	TransactionID string  `json:"transaction_id"`
	MessageID     string  `json:"message_id"`
	PartitionID   string  `json:"partition_id"`
	TraceID       *string `json:"trace_id"`
	QueueName     string  `json:"queueName"`
}

// delivery is the answer to a pop. The zero value stands for 204.
type delivery struct {
	Success           bool      `json:"success"`
	Queue             string    `json:"queue"`
	Partition         string    `json:"partition"`
	PartitionID       string    `json:"partitionId"`
	LeaseID           string    `json:"leaseId"`
	ConsumerGroup     string    `json:"consumerGroup"`
	PartitionsClaimed int       `json:"partitionsClaimed"`
	Messages          []message `json:"messages"`
}

type message struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	TraceID       *string         `json:"traceId"`
	Data          json.RawMessage `json:"data"`
	ProducerSub   *string         `json:"producerSub"`
	CreatedAt     string          `json:"createdAt"`
	PartitionID   string          `json:"partitionId"`
	Partition     string          `json:"partition"`
	LeaseID       string          `json:"leaseId"`
	ConsumerGroup string          `json:"consumerGroup"`
	Attempt       int             `json:"attempt"`
}

// ids returns the transaction ids in the order of delivery.
func (d delivery) ids() []string {
	ids := make([]string, len(d.Messages))
	for i, m := range d.Messages {
		ids[i] = m.TransactionID
	}
	return ids
}

// ack returns acks with the lease id for the messages with these indexes. Without indexes it returns acks for all messages.
func (d delivery) ack(status string, indexes ...int) []ackItem {
	if len(indexes) == 0 {
		for i := range d.Messages {
			indexes = append(indexes, i)
		}
	}
	items := make([]ackItem, len(indexes))
	for i, index := range indexes {
		m := d.Messages[index]
		items[i] = ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: status}
	}
	return items
}

type ackItem struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	Status        string `json:"status,omitempty"`
	LeaseID       string `json:"leaseId,omitempty"`
	Error         string `json:"error,omitempty"`
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	RetryAfter    int    `json:"retryAfter,omitempty"`
}

// acked is the answer to one ackItem.
type acked struct {
	Index         int     `json:"index"`
	TransactionID string  `json:"transactionId"`
	Success       bool    `json:"success"`
	Error         *string `json:"error"`
	QueueName     *string `json:"queueName"`
	PartitionName *string `json:"partitionName"`
	LeaseReleased *bool   `json:"leaseReleased"`
	DLQ           bool    `json:"dlq"`
}

// reason returns the error, or "".
func (a acked) reason() string {
	if a.Error == nil {
		return ""
	}
	return *a.Error
}

func (a acked) released() bool { return a.LeaseReleased != nil && *a.LeaseReleased }

type extension struct {
	LeaseID      string  `json:"leaseId"`
	Success      bool    `json:"success"`
	Error        *string `json:"error"`
	ExpiresAt    *string `json:"expiresAt"`
	NewExpiresAt *string `json:"newExpiresAt"`
}

type configured struct {
	Configured  bool           `json:"configured"`
	QueueID     string         `json:"queueId"`
	PartitionID string         `json:"partitionId"`
	Queue       string         `json:"queue"`
	Namespace   string         `json:"namespace"`
	Task        string         `json:"task"`
	Options     map[string]any `json:"options"`
	Warnings    []string       `json:"warnings"`
}

type deleted struct {
	Deleted bool   `json:"deleted"`
	Queue   string `json:"queue"`
	Existed bool   `json:"existed"`
}

func get(target string) call { return call{Method: http.MethodGet, Target: target} }

func put(target, body string) call { return call{Method: http.MethodPut, Target: target, Body: body} }

func post(target, body string) call { return call{Method: http.MethodPost, Target: target, Body: body} }

func remove(target string) call { return call{Method: http.MethodDelete, Target: target} }

// These functions build the calls of the API.

func pushCall(items ...item) call {
	return post("/api/v1/push", encode(map[string]any{"items": items}))
}

func popCall(queue, query string) call {
	return get("/api/v1/pop/queue/" + url.PathEscape(queue) + "?" + query)
}

func popPartitionCall(queue, partition, query string) call {
	return get("/api/v1/pop/queue/" + url.PathEscape(queue) +
		"/partition/" + url.PathEscape(partition) + "?" + query)
}

func popTaggedCall(query string) call {
	return get("/api/v1/pop?" + query)
}

func ackCall(one ackItem) call { return post("/api/v1/ack", encode(one)) }

func ackBatchCall(group string, items ...ackItem) call {
	body := map[string]any{"acknowledgments": items}
	if group != "" {
		body["consumerGroup"] = group
	}
	return post("/api/v1/ack/batch", encode(body))
}

func extendCall(lease, body string) call {
	return post("/api/v1/lease/"+url.PathEscape(lease)+"/extend", body)
}

func configureCall(queue string, options map[string]any) call {
	return post("/api/v1/configure", encode(map[string]any{"queue": queue, "options": options}))
}

func deleteCall(queue string) call {
	return remove("/api/v1/resources/queues/" + url.PathEscape(queue))
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a test passed invalid raw JSON
	}
	return string(b)
}
