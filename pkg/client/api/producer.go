package api

import "time"

// Attachment is a table whose rows become messages.
type Attachment struct {
	Table  string   `json:"table"` // The name of the table as in SQL. For a dropped table, its oid.
	Queue  Name     `json:"queue"`
	Events []string `json:"events"`
	// The columns whose values form the name of the partition. If it is empty, all rows go to one partition.
	Key        []string  `json:"key"`
	Headers    *string   `json:"headers"`   // A JSON object of texts, or an SQL expression that returns one. null: no headers.
	Condition  *string   `json:"condition"` // Only rows for which this SQL expression is true become messages. null: all rows become messages.
	Payload    string    `json:"payload"`
	Columns    []string  `json:"columns"`    // The columns in the payload. Empty: all.
	Strict     bool      `json:"strict"`     // If the message cannot be written, the statement that writes to the table fails.
	AttachedBy string    `json:"attachedBy"` // A role of Postgres.
	AttachedAt time.Time `json:"attachedAt"`
	// All triggers exist and are enabled. Otherwise the table must be attached again.
	Complete     bool       `json:"complete"`
	Failures     int64      `json:"failures"` // The number of statements whose messages could not be written. At most the latest 100 are kept.
	LastFailedAt *time.Time `json:"lastFailedAt"`
	LastFailure  *string    `json:"lastFailure"` // The error of Postgres.
}

// Attachments is the answer to GET /api/v1/attachments.
type Attachments struct {
	Attachments []Attachment `json:"attachments"`
	Pagination  Page         `json:"pagination"`
}

// RejectedRow is a row of the inbox that cannot be stored as a message.
type RejectedRow struct {
	ID            string     `json:"id"`            // The id of the row in the inbox.
	Queue         *string    `json:"queue"`         // The name of the queue. It may be too long. null: the name is not UTF-8.
	Partition     *string    `json:"partition"`     // null: the name is not UTF-8.
	TransactionID *string    `json:"transactionId"` // null: the row has no id, or the id is not UTF-8.
	TraceID       *ID        `json:"traceId"`
	VisibleAt     *time.Time `json:"visibleAt"` // null: the row has no instant, or the instant is infinite.
	InsertedAt    time.Time  `json:"insertedAt"`
	RejectedAt    time.Time  `json:"rejectedAt"`
	Code          string     `json:"code"`
	Reason        string     `json:"reason"` // The reason of the rejection, for people.
	// The size of the payload in the table. Postgres may have compressed the payload.
	StoredBytes int64 `json:"storedBytes"`
	// The first 1,000 characters of the payload as text. null: they are not UTF-8, or `storedBytes` is more than 1 MiB.
	Excerpt *string `json:"excerpt"`
}

// RejectedRows is the answer to GET /api/v1/inbox/rejected.
type RejectedRows struct {
	Rows       []RejectedRow `json:"rows"`
	Examined   int64         `json:"examined"` // The number of rows that the request examined.
	Pagination Page          `json:"pagination"`
}

// Streams is the answer to GET /api/v1/streams.
type Streams struct {
	Streams    []Stream `json:"streams"`
	Pagination Page     `json:"pagination"`
}

// Stream is a query of a stream client.
type Stream struct {
	ID            ID        `json:"id"`
	Name          Name      `json:"name"`
	SourceQueue   Name      `json:"sourceQueue"`
	SinkQueue     *string   `json:"sinkQueue"`
	ConfigHash    Name      `json:"configHash"`
	ConsumerGroup string    `json:"consumerGroup"` // The consumer group of the query's pops.
	StateKeys     int64     `json:"stateKeys"`     // The number of keys of the query in all partitions. 10001 means more than 10000.
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
}
