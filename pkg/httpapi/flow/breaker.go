package flow

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/limit"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxPause is the longest pause of a breaker that an operator opens, and maxReason the greatest number of characters of a reason.
const maxPause, maxReason = 24 * time.Hour, 1000

// Breakers reads and changes breakers. *limit.Store implements it.
type Breakers interface {
	Breaker(ctx context.Context, of limit.Of) (limit.Breaker, error)
	OpenBreaker(ctx context.Context, of limit.Of, pause time.Duration, reason string) (until time.Time, err error)
	CloseBreaker(ctx context.Context, of limit.Of) (changed bool, err error)
}

// ShowBreaker serves GET /api/v1/consumer-groups/:group/queues/:queue/breaker.
func (h *Handlers) ShowBreaker(p *wire.Params) (any, error) {
	of := limit.Of{Queue: p.PathName("queue"), Group: p.PathName("group")}
	p.Check(wire.MayRead(p.Ctx(), of.Queue))
	if p.Err != nil {
		return nil, p.Err
	}
	b, err := h.Breakers.Breaker(p.Ctx(), of)
	if err != nil {
		return nil, err
	}
	answer := api.BreakerState{
		Queue: of.Queue, ConsumerGroup: of.Group, Configured: b.Configured, State: "closed", OpenedAt: wire.OrNull(b.OpenedAt), Probing: b.Probing,
		Openings: b.Openings, OpenedBy: wire.OrNull(b.OpenedBy), Reason: wire.OrNull(b.Reason), FailuresInARow: b.FailuresInARow,
		Completed: b.Completed, Failed: b.Failed,
	}
	switch {
	case b.OpenedAt.IsZero():
	case b.Probing || !b.Until.After(b.Now):
		answer.State = "half-open"
	default:
		answer.State = "open"
	}
	if b.Until.After(b.Now) {
		answer.Until = &b.Until
	}
	return answer, nil
}

// OpenBreaker serves POST /api/v1/consumer-groups/:group/queues/:queue/breaker/open.
func (h *Handlers) OpenBreaker(p *wire.Params) (any, error) {
	of := ofGroup(p)
	if p.Err != nil {
		return nil, p.Err
	}
	var pause time.Duration
	var reason string
	parameters := audit.Parameters{"by": "operator"}
	err := h.Bodies.ReadOptionalObject(p, func(name string, value jsontext.Value) (err error) {
		if value.Kind() == 'n' {
			return nil
		}
		switch name {
		case "pause":
			pause, err = readPause(value)
			parameters[name] = pause.String()
		case "reason":
			reason, err = readReason(value)
			parameters[name] = reason
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: of.Queue, Group: of.Group}, parameters)
	until, err := h.Breakers.OpenBreaker(p.Ctx(), of, pause, reason)
	return api.BreakerChanged{Success: true, Queue: of.Queue, ConsumerGroup: of.Group, Changed: true, Open: true, Until: wire.OrNull(until)}, err
}

// CloseBreaker serves POST /api/v1/consumer-groups/:group/queues/:queue/breaker/close.
func (h *Handlers) CloseBreaker(p *wire.Params) (any, error) {
	of := ofGroup(p)
	if p.Err != nil {
		return nil, p.Err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: of.Queue, Group: of.Group}, audit.Parameters{"by": "operator"})
	changed, err := h.Breakers.CloseBreaker(p.Ctx(), of)
	return api.BreakerChanged{Success: true, Queue: of.Queue, ConsumerGroup: of.Group, Changed: changed}, err
}

func readPause(value jsontext.Value) (time.Duration, error) {
	text, _ := wire.Text(value)
	pause, err := time.ParseDuration(text)
	if err != nil || pause < time.Millisecond || pause > maxPause {
		return 0, queue.Invalidf("pause must be a duration from 1ms to 24h, such as 5m, not %s", wire.Clip(string(value)))
	}
	return pause, nil
}

func readReason(value jsontext.Value) (string, error) {
	reason, ok := wire.Text(value)
	switch n := utf8.RuneCountInString(reason); {
	case !ok:
		return "", queue.Invalidf("reason must be a string")
	case n > maxReason:
		return "", queue.Invalidf("reason has %d characters: it must have at most %d", n, maxReason)
	case strings.ContainsRune(reason, 0):
		return "", queue.Invalidf("reason contains the character NUL")
	}
	return reason, nil
}
