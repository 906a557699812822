package api

// SystemMetrics is the answer to GET /api/v1/analytics/system-metrics.
type SystemMetrics struct {
	HistorySpan
	Replicas     []Replica `json:"replicas"`
	ReplicaCount int64     `json:"replicaCount"`
	PointCount   int64     `json:"pointCount"`
}

// Replica is one process.
type Replica struct {
	Hostname   string        `json:"hostname"`
	Port       int64         `json:"port"`
	WorkerID   string        `json:"workerId"` // The id of the process.
	TimeSeries []SystemPoint `json:"timeSeries"`
}

// SystemPoint has the figures of a process in a bucket.
type SystemPoint struct {
	Timestamp   BucketTime    `json:"timestamp"`
	SampleCount int64         `json:"sampleCount"`
	Metrics     SystemFigures `json:"metrics"`
}

// SystemFigures are the figures of a process. Belfry sets the figures that only Queen MQ has to 0.
type SystemFigures struct {
	CPU         SystemCPU        `json:"cpu"`
	Memory      SystemMemory     `json:"memory"`
	Database    SystemPool       `json:"database"`
	Threadpool  SystemThreads    `json:"threadpool"`
	Registries  SystemRegistries `json:"registries"`
	SharedState struct{}         `json:"shared_state"`
}

// SystemCPU is the use of CPU.
type SystemCPU struct {
	UserUs   Figure `json:"user_us"`
	SystemUs Figure `json:"system_us"`
}

// SystemMemory is the use of memory.
type SystemMemory struct {
	RSSBytes     Figure `json:"rss_bytes"`
	VirtualBytes Figure `json:"virtual_bytes"`
}

// SystemPool counts connections to Postgres.
type SystemPool struct {
	PoolSize   Figure `json:"pool_size"`
	PoolIdle   Figure `json:"pool_idle"`
	PoolActive Figure `json:"pool_active"`
}

// SystemThreads are always 0.
type SystemThreads struct {
	DB     SystemThreadPool `json:"db"`
	System SystemThreadPool `json:"system"`
}

// SystemThreadPool is always 0.
type SystemThreadPool struct {
	PoolSize  Figure `json:"pool_size"`
	QueueSize Figure `json:"queue_size"`
}

// SystemRegistries are always 0.
type SystemRegistries struct {
	Response Figure `json:"response"`
}

// Figure is a figure of a process in a bucket.
type Figure struct {
	Avg  float64 `json:"avg"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Last float64 `json:"last"`
}
