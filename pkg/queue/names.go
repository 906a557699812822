package queue

// NoGroup is the consumer group of a reader that names none ("queue mode").
const NoGroup = "__QUEUE_MODE__"

// DefaultPartition is the partition of a push that names none.
const DefaultPartition = "Default"

// Limits of names and of transaction ids. See docs/compatibility.md.
const (
	MaxNameBytes          = 255
	MaxTransactionIDRunes = 255
)
