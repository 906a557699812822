package api

import "time"

// Postgres is the answer to GET /api/v1/analytics/postgres-stats.
type Postgres struct {
	Timestamp        time.Time     `json:"timestamp"`
	Database         string        `json:"database"`
	DatabaseCache    DatabaseCache `json:"databaseCache"`
	TableCache       []TableCache  `json:"tableCache"`
	IndexCache       []IndexCache  `json:"indexCache"`
	CacheSummary     CacheSummary  `json:"cacheSummary"`
	DeadTuples       []DeadTuples  `json:"deadTuples"`
	HotUpdates       []HotUpdates  `json:"hotUpdates"`
	AutovacuumStatus []Autovacuum  `json:"autovacuumStatus"`
	TableSizes       []TableSize   `json:"tableSizes"`
	// The sessions of the database whose statement began more than a second ago, the oldest first. Sessions of other roles
	// are shown only if the role of the server has the rights of `pg_read_all_stats`.
	ActiveQueries    []ActiveQuery     `json:"activeQueries"`
	BufferConfig     BufferConfig      `json:"bufferConfig"`
	BufferUsage      []struct{}        `json:"bufferUsage"`      // Belfry does not use the extension `pg_buffercache`.
	Settings         []Setting         `json:"settings"`         // Settings of Postgres that affect durability, memory and vacuum.
	ReplicationSlots []ReplicationSlot `json:"replicationSlots"` // Replication slots of the cluster. Slots without a reader come first.
}

// DatabaseCache says how often Postgres found a block in memory.
type DatabaseCache struct {
	Database string `json:"database"`
	CacheHits
}

// TableCache is DatabaseCache for a table.
type TableCache struct {
	Schema string `json:"schema"`
	Table  string `json:"table"`
	CacheHits
}

// IndexCache is DatabaseCache for an index.
type IndexCache struct {
	Schema string `json:"schema"`
	Table  string `json:"table"`
	Index  string `json:"index"`
	CacheHits
}

// CacheHits counts reads of blocks. The ratio is in percent, and null without a read.
type CacheHits struct {
	DiskReads     int64    `json:"diskReads"`
	CacheHits     int64    `json:"cacheHits"`
	CacheHitRatio *float64 `json:"cacheHitRatio"`
}

// CacheSummary has the sums over all tables and indexes.
type CacheSummary struct {
	Tables  Cache `json:"tables"`
	Indexes Cache `json:"indexes"`
}

// Cache counts reads of blocks. The ratio is in percent, and null without a read.
type Cache struct {
	DiskReads int64    `json:"diskReads"`
	CacheHits int64    `json:"cacheHits"`
	HitRatio  *float64 `json:"hitRatio"`
}

// DeadTuples counts the dead rows of a table.
type DeadTuples struct {
	Schema         string     `json:"schema"`
	Table          string     `json:"table"`
	DeadTuples     int64      `json:"deadTuples"`
	LiveTuples     int64      `json:"liveTuples"`
	DeadPercentage *float64   `json:"deadPercentage"` // The number of dead rows per 100 live rows.
	LastVacuum     *time.Time `json:"lastVacuum"`
	LastAutovacuum *time.Time `json:"lastAutovacuum"`
}

// HotUpdates counts the updates of a table that changed no index.
type HotUpdates struct {
	Schema              string   `json:"schema"`
	Table               string   `json:"table"`
	TotalUpdates        int64    `json:"totalUpdates"`
	HotUpdates          int64    `json:"hotUpdates"`
	HotUpdatePercentage *float64 `json:"hotUpdatePercentage"`
}

// ActiveQuery is a statement that runs.
type ActiveQuery struct {
	PID      int64   `json:"pid"`
	Duration float64 `json:"duration"` // In seconds.
	State    string  `json:"state"`
	// The beginning of the statement. For a session of another program, `(statement of another program)`.
	Query         string  `json:"query"`
	WaitEventType *string `json:"waitEventType"`
	WaitEvent     *string `json:"waitEvent"`
}

// Autovacuum says when autovacuum last ran on a table.
type Autovacuum struct {
	Table            string     `json:"table"`
	LastAutovacuum   *time.Time `json:"lastAutovacuum"`
	DeadTuples       int64      `json:"deadTuples"`
	AutovacuumCount  int64      `json:"autovacuumCount"`
	AutoanalyzeCount int64      `json:"autoanalyzeCount"`
}

// BufferConfig is the size of the shared buffers of Postgres.
type BufferConfig struct {
	SharedBuffers     string `json:"sharedBuffers"` // In blocks.
	SharedBuffersSize string `json:"sharedBuffersSize"`
}

// TableSize is the size of a table.
type TableSize struct {
	Table          string `json:"table"`
	TotalSize      string `json:"totalSize"`
	TotalSizeBytes int64  `json:"totalSizeBytes"`
	TableSize      string `json:"tableSize"`
	TableSizeBytes int64  `json:"tableSizeBytes"`
	IndexSize      string `json:"indexSize"`
	IndexSizeBytes int64  `json:"indexSizeBytes"`
}

// Setting is a setting of Postgres.
type Setting struct {
	Name           string `json:"name"`
	Value          string `json:"value"`
	Source         string `json:"source"`         // The source of the value, as `pg_settings` names it.
	PendingRestart bool   `json:"pendingRestart"` // The configuration file has another value, which needs a restart.
}

// ReplicationSlot is a replication slot of the cluster.
type ReplicationSlot struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Active    bool   `json:"active"`    // A standby or a subscriber reads the slot.
	KeptBytes int64  `json:"keptBytes"` // WAL that the slot keeps.
}
