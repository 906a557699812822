package apitest

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// progressFake has no groups and no partitions.
type progressFake struct{}

func (progressFake) Beginnings(context.Context, string, string, int) (out stats.Beginnings, err error) {
	return out, nil
}

func (progressFake) Places(context.Context, string, string, stats.PlaceQuery) (out stats.Places, err error) {
	return out, nil
}

func (progressFake) PreviewSeek(context.Context, string, string, stats.SeekTarget, stats.SeekPart) (out stats.SeekPreview, err error) {
	return out, nil
}

func (progressFake) Heat(context.Context, string, stats.HeatFilter) ([]stats.Heat, *string, error) {
	return nil, nil, nil
}
