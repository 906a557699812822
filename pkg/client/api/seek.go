package api

import "time"

// Seek is the position to which a seek moves a group. Exactly one member is set.
type Seek struct {
	ToBeginning bool `json:"toBeginning,omitzero"` // Move before the first message.
	ToEnd       bool `json:"toEnd,omitzero"`       // Move past the last message.
	// Move past the last message that was stored at or before this instant. An instant without a zone is in UTC.
	Timestamp time.Time `json:"timestamp,omitzero"`
}

// Sought is the answer of a seek in all partitions of a queue.
type Sought struct {
	Success         bool       `json:"success"`
	Group           Name       `json:"consumerGroup"`
	Queue           Name       `json:"queueName"`
	SeekToEnd       bool       `json:"seekToEnd"`
	SeekToBeginning bool       `json:"seekToBeginning"`
	TargetTimestamp *time.Time `json:"targetTimestamp"` // null unless the request has a timestamp.
	// The number of partitions in which the cursor moved. 0 means that the queue has no such group.
	PartitionsUpdated int64 `json:"partitionsUpdated"`
}

// SoughtPartition is the answer of a seek in one partition.
type SoughtPartition struct {
	Success   bool `json:"success"`
	Group     Name `json:"consumerGroup"`
	Queue     Name `json:"queueName"`
	Partition Name `json:"partitionName"`
	Updated   bool `json:"updated"` // false for a group without a cursor in the partition.
	// When the last message before the new cursor was stored. null if the cursor is before the first message.
	CursorMovedTo *time.Time `json:"cursorMovedTo"`
}

// DeletedGroup is the answer when a consumer group was deleted.
type DeletedGroup struct {
	Success           bool  `json:"success"`
	Group             Name  `json:"consumerGroup"`
	Queue             *Name `json:"queueName,omitzero"` // Absent if the group was deleted in all queues.
	DeletedPartitions int64 `json:"deletedPartitions"`  // The number of partitions in which the group had a cursor.
	MetadataDeleted   bool  `json:"metadataDeleted"`    // The start position of the group was deleted too.
}
