package queue

import "time"

// AckStatus is the outcome of a message that a consumer reports.
type AckStatus int

// The ack statuses.
const (
	// AckUnknown has no effect.
	AckUnknown AckStatus = iota
	// AckCompleted: the message and all earlier messages of the partition are done.
	AckCompleted
	// AckFailed: delivery repeats from the cursor. If no retry is left, the message becomes a dead letter.
	AckFailed
	// AckDead: the message becomes a dead letter now.
	AckDead
	// AckRetry: delivery repeats from the cursor, and no failure is counted.
	AckRetry
)

// ParseAckStatus reads the status of an ack request. It returns AckUnknown for
// every other text.
func ParseAckStatus(s string) AckStatus {
	switch s {
	case "completed", "success":
		return AckCompleted
	case "failed":
		return AckFailed
	case "dlq":
		return AckDead
	case "retry":
		return AckRetry
	default:
		return AckUnknown
	}
}

// AckItem is one acknowledgment.
type AckItem struct {
	TransactionID string
	// PartitionID is the text that the client sent. A text that is not a UUID matches no message.
	PartitionID string
	Group       string
	// LeaseID is the lease that the ack needs: an ack with a stale lease is rejected. Empty: the lease is not checked.
	LeaseID string
	Status  AckStatus
	// Error is stored with the dead letter.
	Error string
	// RetryAfter is the time until the next delivery after a failed ack or a retry. Nil: the retryDelay of the queue after a
	// failed ack, no delay after a retry.
	RetryAfter *time.Duration
	// PauseGroup opens the breaker of the group for at least this time. It goes with AckRetry. 0: no pause. If the group has no
	// breaker, the ack is rejected.
	PauseGroup time.Duration
	// Consumer names the sender of an ack that is not completed. It is stored with the failed attempt.
	Consumer string
}

// AckResult is the result of one AckItem.
type AckResult struct {
	Success bool
	// Error says why the ack failed. It is empty if the ack succeeded, and if its status is unknown.
	Error     string
	Queue     string
	Partition string
	// Resolved: Queue, Partition and LeaseReleased are known.
	Resolved bool
	// LeaseReleased: the group no longer has a lease on the partition.
	LeaseReleased bool
	DeadLettered  bool
	// Exhausted is what a failed ack without a retry left did, if the message became no dead letter.
	Exhausted Exhausted
}

// Exhausted is what happened to a message without a retry left.
type Exhausted string

const (
	// ExhaustedBlocked means that the partition stops before the message, until an operator decides.
	ExhaustedBlocked Exhausted = "blocked"
	// ExhaustedSkipped means that the group skips the message.
	ExhaustedSkipped Exhausted = "skipped"
)
