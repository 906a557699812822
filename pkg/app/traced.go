package app

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/process/tracing"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// trace makes the verbs of the API make spans. Without traces it changes nothing.
func (b builder) trace() {
	if b.tracer == nil {
		return
	}
	b.api.Pusher = tracedPusher{b.api.Pusher, b.tracer}
	b.api.Popper = tracedPopper{b.api.Popper, b.tracer}
	b.api.Verbs = b.tracer.Verbs(b.api.Verbs)
}

type tracedPusher struct {
	data.Pusher
	tracer *tracing.Tracer
}

func (p tracedPusher) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	return p.tracer.Push(ctx, items, p.Pusher.Push)
}

type tracedPopper struct {
	httpapi.Popper
	tracer *tracing.Tracer
}

func (p tracedPopper) Pop(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error) {
	return p.tracer.Pop(ctx, req, p.Popper.Pop)
}
