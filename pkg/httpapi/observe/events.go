package observe

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/live"
)

// Watch serves GET /api/v1/events. Queen MQ does not have this route.
func (h *Handlers) Watch(c echo.Context) error {
	ctx := c.Request().Context()
	filter := live.Filter{Grants: identity.GrantsOf(ctx), Audit: h.SeesAudit(c)}
	after := cmp.Or(c.Request().Header.Get("Last-Event-ID"), c.QueryParam("lastEventId"))
	watcher, err := h.Events.Watch(filter, after)
	if err != nil {
		return err
	}
	defer watcher.Close()
	stream, err := h.Streams.Start(c)
	if err != nil {
		return err
	}
	beat := time.NewTicker(wire.KeepAlive)
	defer beat.Stop()
	end := time.NewTimer(time.Until(wire.End(c)))
	defer end.Stop()
	for {
		revocation := h.Streams.NextRevocation()
		if open, err := send(ctx, stream, watcher); err != nil || !open {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.Streams.Ending:
			_, err := send(ctx, stream, watcher)
			return err
		case <-end.C:
			return sendClosing(stream, wire.ReasonOf(ctx))
		case <-revocation:
		case <-watcher.Ready():
			beat.Reset(wire.KeepAlive)
		case <-beat.C:
			if err := stream.KeepAlive(); err != nil {
				return err
			}
		}
	}
}

// send sends the waiting events of a watcher. If the rights of the stream have ended, it sends only the event closing. open is
// false if the stream must end.
func send(ctx context.Context, stream *wire.EventStream, watcher *live.Watcher) (open bool, err error) {
	if identity.Valid(ctx) != nil {
		return false, sendClosing(stream, wire.EndUnauthorized)
	}
	events, open := watcher.Take()
	for i := range events {
		if err := stream.AppendJSON(string(events[i].Type), events[i].ID, fields(&events[i])); err != nil {
			return false, err
		}
	}
	return open, stream.Flush()
}

// sendClosing sends the event closing with a reason.
func sendClosing(stream *wire.EventStream, reason string) error {
	e := live.Event{Type: live.TypeClosing, At: time.Now(), Data: api.Closing{Reason: reason}}
	if err := stream.AppendJSON(string(e.Type), "", fields(&e)); err != nil {
		return err
	}
	return stream.Flush()
}

// fields returns the members of an event. It leaves out members that do not apply.
func fields(e *live.Event) wire.Fields {
	all := wire.Fields{"type", string(e.Type), "at", e.At}
	if !e.Instance.IsZero() {
		all = append(all, "instance", e.Instance)
	}
	for _, name := range []struct{ name, value string }{{"queue", e.Queue}, {"partition", e.Partition}, {"consumerGroup", e.Group}} {
		if name.value != "" {
			all = append(all, name.name, name.value)
		}
	}
	if e.Data != nil {
		all = append(all, "data", e.Data)
	}
	return all
}
