package api

import "time"

// Seek is the place to which a seek moves a group. Exactly one of its members is set.
type Seek struct {
	// Move before the first message.
	ToBeginning bool `json:"toBeginning,omitzero"`
	// Move past the last message.
	ToEnd bool `json:"toEnd,omitzero"`
	// Move past the last message that was stored at or before this instant. Without a zone it is in UTC.
	Timestamp time.Time `json:"timestamp,omitzero"`
}

// Sought is the answer of a seek in all partitions of a queue.
type Sought struct {
	Success         bool `json:"success"`
	Group           Name `json:"consumerGroup"`
	Queue           Name `json:"queueName"`
	SeekToEnd       bool `json:"seekToEnd"`
	SeekToBeginning bool `json:"seekToBeginning"`
	// null unless the request has a timestamp.
	TargetTimestamp *time.Time `json:"targetTimestamp"`
	// The number of partitions. 0 means that the queue has no such group.
	PartitionsUpdated int64 `json:"partitionsUpdated"`
}

// SoughtPartition is the answer of a seek in one partition.
type SoughtPartition struct {
	Success   bool `json:"success"`
	Group     Name `json:"consumerGroup"`
	Queue     Name `json:"queueName"`
	Partition Name `json:"partitionName"`
	// false for a group without a cursor in the partition.
	Updated bool `json:"updated"`
	// When the last message before the new cursor was stored. null when the cursor is before the first message.
	CursorMovedTo *time.Time `json:"cursorMovedTo"`
}

// DeletedGroup is the answer when a consumer group was deleted.
type DeletedGroup struct {
	Success bool `json:"success"`
	Group   Name `json:"consumerGroup"`
	// Absent if the group was deleted in all queues.
	Queue *Name `json:"queueName,omitzero"`
	// The number of partitions in which the group had a cursor.
	DeletedPartitions int64 `json:"deletedPartitions"`
	// Where the group starts was deleted too.
	MetadataDeleted bool `json:"metadataDeleted"`
}
