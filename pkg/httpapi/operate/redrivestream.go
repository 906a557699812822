package operate

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// progressInterval is the minimum time between two events with the progress of a redrive.
const progressInterval = 250 * time.Millisecond

// ended is the reason why a redrive stops before all dead letters are redriven.
type ended string

// Error returns the reason.
func (e ended) Error() string { return "the redrive stopped: " + string(e) }

// StreamRedrive serves POST /api/v1/dlq/redrive/stream. It redrives all selected dead letters, and sends its
// progress as Server-Sent Events. It stops early when the client closes the connection, when the token ends
// and when the server stops. Messages that are redriven by then stay redriven. Queen MQ does not have this
// route.
func (h *Handlers) StreamRedrive(p *wire.Params) error {
	r, err := h.readRedrive(p)
	switch {
	case err != nil:
		return err
	case r.toQueue != nil:
		return queue.Invalidf("toQueue is not possible in a stream: use /api/v1/dlq/redrive")
	case r.dryRun:
		return errDryRunHere("/api/v1/dlq/redrive, or GET /api/v1/dlq/count")
	}
	r.begin(p)
	stream, err := h.Streams.Start(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(p.Ctx(), wire.End(p))
	defer cancel()
	var last time.Time
	done, err := h.DeadLetters.RedriveAll(ctx, r.Filter, r.rate, func(so deadletter.Result) error {
		switch {
		case h.Streams.IsEnding():
			return ended(wire.EndShutdown)
		case identity.Valid(ctx) != nil:
			return ended(wire.EndUnauthorized)
		case time.Since(last) < progressInterval:
			return nil
		}
		last = time.Now()
		return h.send(stream, "progress", countsOf(&so))
	})
	if p.Ctx().Err() != nil { // the client has disconnected
		return p.Ctx().Err()
	}
	end := api.RedriveEnd{RedriveCounts: countsOf(&done), Reason: endDone}
	switch early := ended(""); {
	case errors.As(err, &early):
		end.Reason, err = string(early), nil
	case ctx.Err() != nil:
		end.Reason, err = wire.ReasonOf(ctx), nil
	case err != nil:
		end.Reason, end.Error = wire.EndError, h.Report(p, err)
	}
	return errors.Join(err, h.send(stream, "closing", end))
}

func (h *Handlers) send(stream *wire.EventStream, kind string, value any) error {
	if err := stream.AppendJSON(kind, "", value); err != nil {
		return err
	}
	return stream.Flush()
}

func countsOf(r *deadletter.Result) api.RedriveCounts {
	return api.RedriveCounts{Matched: r.Matched, Redriven: r.Taken, Skipped: r.Skipped, Remaining: r.Remaining}
}

// endDone is the reason of a stream that has redriven all selected dead letters.
const endDone = "done"
