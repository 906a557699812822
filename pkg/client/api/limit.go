package api

import "time"

// Limits are the limits of a consumer group in a queue, or the default of a queue. It is the body of PUT /api/v1/…/limits. A member that
// is absent is no limit.
type Limits struct {
	// The greatest number of live leases of the group, from 1 to 10000, over all instances.
	Concurrency int64 `json:"concurrency,omitzero"`
	// The greatest rate of deliveries. A delivery of n messages counts n times.
	RateLimit *RateLimit `json:"rateLimit,omitzero"`
	// The circuit breaker of the group. Without it the group has none.
	Breaker *Breaker `json:"breaker,omitzero"`
	// What happens to a message whose last retry failed. `deadLetter`: it becomes a dead letter. `block`: its partition stops before it.
	// `skip`: it is finished. The default is `deadLetter`.
	OnExhausted string `json:"onExhausted,omitzero"`
}

// RateLimit is a rate with a burst.
type RateLimit struct {
	Messages int64 `json:"messages"` // The number of messages in `per`, from 1 to 1000000.
	// The duration, from `1ms` to `24h`, such as `1s` or `1m30s`. The rate is at most 1,000,000 messages a second.
	Per string `json:"per"`
	// The number of messages at once after a time without deliveries, from 1 to 1000000. The default is `messages`.
	Burst int64 `json:"burst,omitzero"`
}

// Breaker says when the deliveries of a group pause because its messages fail. It has Failures or Share, or both.
type Breaker struct {
	// The breaker opens after this number of failures in a row, from 1 to 1000000.
	Failures int64 `json:"failures,omitzero"`
	// The breaker opens if this share of the acknowledgments in `window` are failures, above 0 and up to 1.
	Share  float64 `json:"share,omitzero"`
	Window string  `json:"window,omitzero"` // From `1s` to `24h`. The default is `1m`.
	// `share` counts from this number of acknowledgments in `window` on. The default is 10.
	Minimum int64 `json:"minimum,omitzero"`
	// How long the breaker is open the first time, from `1s` to `24h`. The default is `10s`.
	Pause string `json:"pause,omitzero"`
	// The pause doubles up to this time if the first delivery after it fails. The default is `10m`, or `pause` if that is longer.
	PauseMax string `json:"pauseMax,omitzero"`
}

// GroupLimits are the limits in force of a consumer group in a queue.
type GroupLimits struct {
	Queue         Name    `json:"queue"`
	ConsumerGroup Name    `json:"consumerGroup"`
	Limits        *Limits `json:"limits"` // null: the group has no limits.
	// Where the limits come from. null: the group has no limits.
	Source *string `json:"source"`
	// The last change of the limits. null: the group has no limits.
	ChangedAt *time.Time `json:"changedAt"`
	// The use of the limits now.
	Use LimitUse `json:"use"`
}

// LimitUse is the use of limits.
type LimitUse struct {
	// The number of live leases. null without `concurrency`.
	LiveLeases *int64 `json:"liveLeases"`
	// The number of messages that the rate allows now. null without `rateLimit`.
	Tokens *int64 `json:"tokens"`
	// The limits allow a delivery at this instant at the latest. null: they allow one now.
	LimitedUntil *time.Time `json:"limitedUntil"`
}

// QueueLimits are the default limits of a queue, and the groups that have limits of their own.
type QueueLimits struct {
	Queue  Name    `json:"queue"`
	Limits *Limits `json:"limits"` // null: the queue has no default.
	// The last change of the default. null: the queue has no default.
	ChangedAt *time.Time `json:"changedAt"`
	// The groups with limits of their own, by name, also if they do not exist yet.
	Groups     []OwnLimits `json:"groups"`
	Pagination Page        `json:"pagination"`
}

// OwnLimits are the limits of a consumer group of a queue. A group without members has no limits, whatever the default of the queue is.
type OwnLimits struct {
	ConsumerGroup Name   `json:"consumerGroup"`
	Limits        Limits `json:"limits"`
}

// LimitsSet is the answer to a change of limits.
type LimitsSet struct {
	Success bool `json:"success"`
	Queue   Name `json:"queue"`
	// null: the default of the queue.
	ConsumerGroup *Name `json:"consumerGroup"`
	Changed       bool  `json:"changed"` // false if the limits were so already.
	DryRun        bool  `json:"dryRun"`  // Nothing was stored.
	// The limits before the request. null: there were none.
	Before *Limits `json:"before"`
	// The limits after the request. null: there are none.
	Limits *Limits `json:"limits"`
}
