package api

import "time"

// Attachment is a table whose rows become messages.
type Attachment struct {
	Table  string   `json:"table"` // The name of the table as in SQL. A dropped table has its oid.
	Queue  Name     `json:"queue"`
	Events []string `json:"events"`
	// The columns whose values form the name of the partition. Empty: one partition for all rows.
	Key        []string  `json:"key"`
	Condition  *string   `json:"condition"` // The SQL expression that a row must fulfil. null: every row.
	Payload    string    `json:"payload"`
	Columns    []string  `json:"columns"`    // The columns in the payload. Empty: all.
	Strict     bool      `json:"strict"`     // A failure to write the message fails the statement of the writer.
	AttachedBy string    `json:"attachedBy"` // A role of Postgres.
	AttachedAt time.Time `json:"attachedAt"`
	// All triggers exist and are enabled. Otherwise the table must be attached again.
	Complete     bool       `json:"complete"`
	Failures     int64      `json:"failures"` // Statements whose messages could not be written. The latest 100 are kept.
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
	Queue         *string    `json:"queue"`         // The name of the queue, which may be too long. null: it is not UTF-8.
	Partition     *string    `json:"partition"`     // null: it is not UTF-8.
	TransactionID *string    `json:"transactionId"` // null: the row has none, or it is not UTF-8.
	TraceID       *ID        `json:"traceId"`
	VisibleAt     *time.Time `json:"visibleAt"` // null: the row has none, or it is infinite.
	InsertedAt    time.Time  `json:"insertedAt"`
	RejectedAt    time.Time  `json:"rejectedAt"`
	Code          string     `json:"code"`
	Reason        string     `json:"reason"` // The error in words.
	// How much space the payload takes in the table. Postgres may have compressed it.
	StoredBytes int64 `json:"storedBytes"`
	// The first 1,000 characters of the payload as text. null: they are not UTF-8, or the payload takes more than 1 MiB.
	Excerpt *string `json:"excerpt"`
}

// RejectedRows is the answer to GET /api/v1/inbox/rejected.
type RejectedRows struct {
	Rows       []RejectedRow `json:"rows"`
	Examined   int64         `json:"examined"` // How many rows were examined.
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
	ConsumerGroup string    `json:"consumerGroup"` // The group as which the query pops.
	StateKeys     int64     `json:"stateKeys"`     // How many keys the query has in all partitions. 10001 means more than 10000.
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
}
