package api

import (
	"encoding/json"
	"time"
)

// Maintenance is the answer to GET /api/v1/system/maintenance.
type Maintenance struct {
	MaintenanceMode    bool        `json:"maintenanceMode"`    // Push maintenance is on.
	PopMaintenanceMode bool        `json:"popMaintenanceMode"` // Pop maintenance is on.
	BufferedMessages   int64       `json:"bufferedMessages"`   // Messages in the spools of all instances.
	BufferHealthy      bool        `json:"bufferHealthy"`      // This instance can use its spool.
	BufferStats        BufferStats `json:"bufferStats"`
	Buffers            []Buffer    `json:"buffers"` // The spool of this instance, and the spools of other instances that are not empty.
}

// BufferStats counts the pushes that instances keep on disk.
type BufferStats struct {
	PendingCount int64       `json:"pendingCount"` // The same as `bufferedMessages`.
	FailedCount  int64       `json:"failedCount"`  // Messages in the spools that the database refused.
	DBHealthy    bool        `json:"dbHealthy"`    // The database answered this request.
	FailedFiles  FailedFiles `json:"failedFiles"`  // All 0. Clients of Queen MQ expect this member.
}

// FailedFiles is always zero. Only Queen MQ has such files.
type FailedFiles struct {
	Count         int64   `json:"count"`
	TotalBytes    int64   `json:"totalBytes"`
	TotalMB       float64 `json:"totalMB"`
	FailoverCount int64   `json:"failoverCount"`
	QoS0Count     int64   `json:"qos0Count"`
}

// Buffer describes the spool of one instance. The spool has the pushes that the instance keeps on disk.
type Buffer struct {
	ID        *ID       `json:"id"` // The id of the spool. Null if the spool has no file.
	Host      string    `json:"host"`
	Messages  int64     `json:"messages"`
	Rejected  int64     `json:"rejected"`
	Bytes     int64     `json:"bytes"`
	ChangedAt time.Time `json:"changedAt"` // When the instance reported these figures. For the answering instance, the time of the answer.
}

// SpoolRejections is the answer to GET /api/v1/system/maintenance/rejected.
type SpoolRejections struct {
	Messages []SpoolRejection `json:"messages"`
	Total    int64            `json:"total"` // The number of all rejected messages.
}

// SpoolRejection is a message in a spool that the database refused.
type SpoolRejection struct {
	Queue         Name    `json:"queue"`
	Partition     Name    `json:"partition"`
	TransactionID string  `json:"transactionId"`
	ProducerSub   *string `json:"producerSub"`
	// The payload. Null if it is encrypted with a key that the instance does not have.
	Data       json.RawMessage `json:"data"`
	Reason     string          `json:"reason"` // Why the database refused the message.
	RejectedAt time.Time       `json:"rejectedAt"`
}
