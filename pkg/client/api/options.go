package api

// QueueOptions are all options of a queue. POST /api/v1/configure describes them.
type QueueOptions struct {
	LeaseTime                 int64  `json:"leaseTime"`
	RetryLimit                int64  `json:"retryLimit"`
	RetryDelay                int64  `json:"retryDelay"`
	RetryBackoff              int64  `json:"retryBackoff"`
	RetryDelayMax             int64  `json:"retryDelayMax"`
	DelayedProcessing         int64  `json:"delayedProcessing"`
	WindowBuffer              int64  `json:"windowBuffer"`
	EncryptionEnabled         bool   `json:"encryptionEnabled"`
	RetentionEnabled          bool   `json:"retentionEnabled"`
	RetentionSeconds          int64  `json:"retentionSeconds"`
	CompletedRetentionSeconds int64  `json:"completedRetentionSeconds"`
	MaxWaitTimeSeconds        int64  `json:"maxWaitTimeSeconds"`
	MaxSize                   int64  `json:"maxSize"`
	Priority                  int    `json:"priority"`
	TTL                       int64  `json:"ttl"`
	DeadLetterQueue           bool   `json:"deadLetterQueue"`
	DLQAfterMaxRetries        bool   `json:"dlqAfterMaxRetries"`
	ExpireAfterSeconds        int64  `json:"expireAfterSeconds"`
	DeadLetterExpired         bool   `json:"deadLetterExpired"`
	MaxDeliveries             int64  `json:"maxDeliveries"`
	TenantDelimiter           string `json:"tenantDelimiter"`
}
