package api

import "time"

// Explanation is the answer to GET /api/v1/explain.
type Explanation struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"` // The reason for a person.
	// The latest instant at which the answer changes by itself. `null`: an event changes it.
	NextChangeAt      *time.Time `json:"nextChangeAt"`
	Queue             Name       `json:"queue"`
	Partition         *string    `json:"partition"` // The partition of the answer. `null`: the search found the message in none.
	ConsumerGroup     Name       `json:"consumerGroup"`
	TransactionID     *string    `json:"transactionId"`
	NextTransactionID *string    `json:"nextTransactionId"` // The message that is delivered next.
	Failures          int64      `json:"failures"`          // Failed acknowledgments of the first unfinished message.
	Deliveries        int64      `json:"deliveries"`        // Deliveries of the first unfinished message.
	Lag               int64      `json:"lag"`               // Messages that the group is not done with.
	Ahead             int64      `json:"ahead"`             // At most so many messages come before the named one.
	Waiting           int64      `json:"waiting"`           // Requests that wait for the partition and the group on this instance.
	Sweeps            []string   `json:"sweeps"`            // The rules that delete messages of the queue, or pass them.
	// The instant at which the group last consumed a message of the partition. `null`: never.
	ConsumedAt *time.Time `json:"consumedAt"`
	// What is stored of the attempts to deliver the named message, while the group is not done with it. `null`: nothing. The
	// instants of earlier attempts are not stored.
	Attempts  *Attempts `json:"attempts"`
	Timestamp time.Time `json:"timestamp"` // The instant of the read.
}

// Attempts are the attempts to deliver one message to a group that is not done with it.
type Attempts struct {
	// Deliveries. For a leased message behind the first unfinished one, 1 means 1 or more.
	Deliveries  int64      `json:"deliveries"`
	Failures    int64      `json:"failures"`    // Failed acknowledgments.
	LeasedUntil *time.Time `json:"leasedUntil"` // The end of the lease that covers the message.
	RetryAt     *time.Time `json:"retryAt"`     // The message failed, and is not delivered before this instant.
	RedrivenAt  *time.Time `json:"redrivenAt"`  // The message was a dead letter, and was redriven at this instant.
}
