package apitest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/belfry-mq/belfry/pkg/engine/limit"
)

// limitsFake replaces pkg/engine/limit.
type limitsFake struct{}

func (limitsFake) Get(context.Context, limit.Of) (limit.State, error) {
	return limit.State{Limits: json.RawMessage(`{"concurrency":5}`), Own: true}, nil
}

func (limitsFake) List(context.Context, string, string, int) ([]limit.Group, error) {
	return []limit.Group{{Name: "g", Limits: json.RawMessage(`{"concurrency":5}`)}}, nil
}

func (limitsFake) Set(_ context.Context, _ limit.Of, to json.RawMessage, _ bool, _ ...limit.Check) (limit.Change, error) {
	return limit.Change{Changed: true, After: to}, nil
}

func (limitsFake) Breaker(context.Context, limit.Of) (limit.Breaker, error) {
	return limit.Breaker{Configured: true, Now: time.Unix(1, 0)}, nil
}

func (limitsFake) OpenBreaker(_ context.Context, _ limit.Of, pause time.Duration, _ string) (time.Time, error) {
	return time.Unix(1, 0).Add(pause), nil
}

func (limitsFake) CloseBreaker(context.Context, limit.Of) (bool, error) { return true, nil }
