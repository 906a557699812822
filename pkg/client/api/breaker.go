package api

import "time"

// BreakerState is the state of the circuit breaker of a consumer group in a queue.
type BreakerState struct {
	Queue         Name `json:"queue"`
	ConsumerGroup Name `json:"consumerGroup"`
	Configured    bool `json:"configured"` // The limits of the group have a breaker.
	// `closed`: the group gets messages. `open`: it gets none until `until`. `half-open`: one lease may pass, or has passed.
	State string `json:"state"`
	// Since when the breaker is not closed. null: it is closed.
	OpenedAt *time.Time `json:"openedAt"`
	// The instant at which the next lease may pass. null: the breaker is closed, or a lease may pass now.
	Until *time.Time `json:"until"`
	// The half-open breaker waits for the result of the lease that has passed.
	Probing  bool  `json:"probing"`
	Openings int64 `json:"openings"` // The openings since the breaker was closed. Each makes the pause longer.
	// What opened the breaker: `failures`, `share`, `probe`, `client` or `operator`. null: it is closed.
	OpenedBy       *string `json:"openedBy"`
	Reason         *string `json:"reason"`         // null: it is closed.
	FailuresInARow int64   `json:"failuresInARow"` // The failures since the last completed message.
	// The completed messages and the failures in the last `window`. With `failures` alone, only failures are counted.
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
}

// OpenBreaker is the body of POST /api/v1/consumer-groups/{group}/queues/{queue}/breaker/open.
type OpenBreaker struct {
	// How long the group gets no message, such as `5m`: at most `24h`. The default is the pause of the breaker.
	Pause  string `json:"pause,omitzero"`
	Reason string `json:"reason,omitzero"` // At most 1,000 characters.
}

// BreakerChanged is the answer to a change of a breaker by an operator.
type BreakerChanged struct {
	Success       bool       `json:"success"`
	Queue         Name       `json:"queue"`
	ConsumerGroup Name       `json:"consumerGroup"`
	Changed       bool       `json:"changed"` // false if the breaker was closed already.
	Open          bool       `json:"open"`
	Until         *time.Time `json:"until"` // The end of the pause. null: the breaker is closed.
}
