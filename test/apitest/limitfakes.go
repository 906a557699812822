package apitest

import (
	"context"
	"encoding/json"

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
