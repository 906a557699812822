package operate

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadletters"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// CountDeadLetters serves GET /api/v1/dlq/count: it counts dead letters exactly, page by page, and reports its progress as
// Server-Sent Events. The last event has the asOf that bounds a purge or a redrive to these dead letters. It stops when the
// client closes the connection. Queen MQ does not have it.
func (h *Handlers) CountDeadLetters(p *wire.Params) error {
	filter := deadletters.ReadFilter(p)
	if filter.Queue == nil {
		p.Check(queue.Invalidf("queue is required: name the queue whose dead letters are to be counted"))
	} else {
		p.Check(wire.MayRead(p.Ctx(), *filter.Queue))
	}
	if p.Err != nil {
		return p.Err
	}
	stream, err := h.Streams.Start(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(p.Ctx(), wire.End(p))
	defer cancel()
	var last time.Time
	at, err := h.DeadLetters.Count(ctx, filter, func(n int64) error {
		switch {
		case h.Streams.IsEnding():
			return ended(wire.EndShutdown)
		case identity.Valid(ctx) != nil:
			return ended(wire.EndUnauthorized)
		case time.Since(last) < progressInterval:
			return nil
		}
		last = time.Now()
		return h.send(stream, "progress", api.Counting{Matched: n})
	})
	if p.Ctx().Err() != nil { // the client has left
		return p.Ctx().Err()
	}
	end := api.Counted{Matched: at.N, AsOf: at.String(), Reason: endDone}
	if err != nil {
		end.Matched, end.AsOf = 0, ""
	}
	switch early := ended(""); {
	case errors.As(err, &early):
		end.Reason, err = string(early), nil
	case err != nil && ctx.Err() != nil:
		end.Reason, err = wire.ReasonOf(ctx), nil
	case err != nil:
		end.Reason, end.Error = wire.EndError, h.Report(p, err)
	}
	return errors.Join(err, h.send(stream, "closing", end))
}
