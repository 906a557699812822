package api

import "time"

// Explanation is the answer to GET /api/v1/explain.
type Explanation struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"` // The reason as a sentence for people.
	// The answer changes at this instant at the latest, even without an event. `null`: only an event changes the answer.
	NextChangeAt      *time.Time `json:"nextChangeAt"`
	Queue             Name       `json:"queue"`
	Partition         *string    `json:"partition"` // The partition of the answer. `null`: no partition has the message.
	ConsumerGroup     Name       `json:"consumerGroup"`
	TransactionID     *string    `json:"transactionId"`
	NextTransactionID *string    `json:"nextTransactionId"` // The message that is delivered next.
	// The schedule that stores the next message of the partition. `null`: a message is left, or the queue has no such schedule.
	Schedule *string `json:"schedule"`
	// The headers of the named message, with names in lower case. Absent if it has none.
	Headers    map[string]string `json:"headers,omitzero"`
	Failures   int64             `json:"failures"`   // Failed acknowledgments of the first unfinished message.
	Deliveries int64             `json:"deliveries"` // Deliveries of the first unfinished message.
	Lag        int64             `json:"lag"`        // The group's unfinished messages.
	Ahead      int64             `json:"ahead"`      // The maximum number of messages that are delivered before the named message.
	Waiting    int64             `json:"waiting"`    // Requests that wait for the partition and the group on this instance.
	Sweeps     []string          `json:"sweeps"`     // The rules by which sweeps delete or skip messages of the queue.
	// When the group last consumed a message of the partition. `null`: never.
	ConsumedAt *time.Time `json:"consumedAt"`
	// The attempts to deliver the named message, while the group has not finished it. `null`: no attempt is stored. Postgres
	// does not store the instants of earlier attempts.
	Attempts  *Attempts `json:"attempts"`
	Timestamp time.Time `json:"timestamp"` // The instant of the read.
}

// Attempts are the attempts to deliver one message to a group that has not finished it.
type Attempts struct {
	// The number of deliveries. For a leased message after the first unfinished message, 1 means 1 or more.
	Deliveries  int64      `json:"deliveries"`
	Failures    int64      `json:"failures"`    // Failed acknowledgments.
	LeasedUntil *time.Time `json:"leasedUntil"` // The end of the lease that covers the message.
	RetryAt     *time.Time `json:"retryAt"`     // The message failed, and is delivered at this instant at the earliest.
	RedrivenAt  *time.Time `json:"redrivenAt"`  // When the message, a dead letter, was redriven.
}
