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
	// AckFailed: redeliver from the cursor, or dead-letter if no retry is left.
	AckFailed
	// AckDead: dead-letter this message now.
	AckDead
	// AckRetry: redeliver from the cursor without counting a failure.
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
	// PartitionID is the text of the request. A text that is not a UUID matches no
	// message.
	PartitionID string
	Group       string
	// LeaseID fences the ack. Empty: no check.
	LeaseID string
	Status  AckStatus
	// Error is stored with the dead letter.
	Error string
	// RetryAfter, of a failed ack or a retry, is the time until the next delivery. nil: for a failed
	// ack the retryDelay of the queue, for a retry none.
	RetryAfter *time.Duration
}

// AckResult is the result of one AckItem.
type AckResult struct {
	Success bool
	// Error says why the ack failed. It is empty with Success and for an unknown
	// status.
	Error     string
	Queue     string
	Partition string
	// Resolved: Queue, Partition and LeaseReleased are known.
	Resolved bool
	// LeaseReleased: the group no longer has a lease on the partition.
	LeaseReleased bool
	DeadLettered  bool
}
