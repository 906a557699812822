package source

import (
	"encoding/json"
	"time"
)

// AuditEntry is a change of an operator.
type AuditEntry struct {
	At                                 time.Time
	Subject, Queue, Partition          *string
	ConsumerGroup, TransactionID       *string
	Address, RequestID, Action, Result string
	Parameters, Counts                 json.RawMessage
}

// Audit is GET /api/v1/audit.
type Audit struct {
	Entries    []AuditEntry
	Pagination struct{ Next *string }
}

// Maintenance is GET /api/v1/system/maintenance.
type Maintenance struct {
	Push             bool `json:"maintenanceMode"`
	Pop              bool `json:"popMaintenanceMode"`
	BufferedMessages int64
	BufferHealthy    bool
	BufferStats      struct {
		FailedCount int64
		DBHealthy   bool
	}
	Buffers []struct {
		Host                      string
		Messages, Rejected, Bytes int64
		ChangedAt                 *time.Time
	}
}

// Rejected is GET /api/v1/system/maintenance/rejected.
type Rejected struct {
	Messages []struct {
		Queue, Partition, TransactionID, Reason string
		Data                                    json.RawMessage
		RejectedAt                              time.Time
	}
	Total int64
}

// Attachments is GET /api/v1/attachments.
type Attachments struct {
	Attachments []struct {
		Table, Queue, Payload, AttachedBy string
		Events, Key                       []string
		Condition, LastFailure            *string
		Strict, Complete                  bool
		Failures                          int64
		AttachedAt                        time.Time
		LastFailedAt                      *time.Time
	}
	Pagination struct{ Next *string }
}

// RejectedRows is GET /api/v1/inbox/rejected.
type RejectedRows struct {
	Rows []struct {
		ID, Code, Reason                         string
		Queue, Partition, TransactionID, Excerpt *string
		StoredBytes                              int64
		RejectedAt                               time.Time
	}
	Examined   int64
	Pagination struct{ Next *string }
}

// Streams is GET /api/v1/streams.
type Streams struct {
	Streams []struct {
		ID, Name, SourceQueue, ConsumerGroup string
		SinkQueue                            *string
		StateKeys                            int64
		CreatedAt, UpdatedAt                 time.Time
	}
	Pagination struct{ Next *string }
}

// Series is GET /api/v1/analytics/worker-metrics with a span.
type Series struct {
	TimeRange     struct{ From, To time.Time }
	BucketMinutes int
	TimeSeries    []struct {
		Timestamp                                 time.Time
		PushPerSecond, PopPerSecond, AckPerSecond float64
		AckFailed, DLQCount, DBErrors             float64
	}
	Summary struct {
		TotalPushMessages, TotalPopMessages, TotalAckMessages int64
		TotalAckFailed, TotalDLQ, TotalDBErrors               int64
	}
}

// Latencies is GET /api/v1/analytics/queue-lag.
type Latencies []struct {
	QueueName           string
	PopCount            int64
	P50Ms, P95Ms, P99Ms float64
	BucketTime          time.Time
}

// Retention is GET /api/v1/analytics/retention.
type Retention struct {
	Series []struct {
		Bucket                                              time.Time
		RetentionMsgs, CompletedRetentionMsgs, EvictionMsgs float64
	}
	Totals struct{ RetentionMsgs, CompletedRetentionMsgs, EvictionMsgs, TotalMsgs int64 }
}

// Finding is the result of one check of the doctor.
type Finding struct {
	Code, Result, Found, Why, Runbook string
	Do                                []string
}

// Examination is GET /api/v1/doctor.
type Examination struct {
	Healthy                  bool
	Wrong, Warnings, Unknown int64
	Checks                   []Finding
}

// Cache says how often Postgres found what it needed in memory.
type Cache struct{ HitRatio float64 }

// Postgres is GET /api/v1/analytics/postgres-stats.
type Postgres struct {
	Database     string
	CacheSummary struct{ Tables, Indexes Cache }
	DeadTuples   []struct {
		Table                  string
		LiveTuples, DeadTuples int64
	}
	HotUpdates []struct {
		Table               string
		HotUpdatePercentage *float64
	}
	AutovacuumStatus []struct {
		Table          string
		LastAutovacuum *time.Time
	}
	TableSizes []struct {
		Table                          string
		TotalSizeBytes, IndexSizeBytes int64
	}
	Settings []struct {
		Name, Value, Source string
		PendingRestart      bool
	}
	ReplicationSlots []struct {
		Name, Kind string
		Active     bool
		KeptBytes  int64
	}
}

// Processes is GET /api/v1/analytics/system-metrics.
type Processes struct {
	Replicas []struct {
		Hostname   string
		Port       int64
		WorkerID   string
		TimeSeries []struct {
			Timestamp time.Time
			Metrics   struct {
				CPU struct {
					User   Figure `json:"user_us"`
					System Figure `json:"system_us"`
				}
				Memory struct {
					RSS Figure `json:"rss_bytes"`
				}
				Database struct {
					Size   Figure `json:"pool_size"`
					Active Figure `json:"pool_active"`
				}
			}
		}
	}
}

// Figure is a figure of a process in one interval.
type Figure struct{ Avg, Max, Last float64 }
