package dataplane

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// delaySeconds reads how long after its push the message becomes visible. null
// counts as not sent.
func (r *itemReader) delaySeconds(value jsontext.Value) error {
	if value.Kind() == 'n' {
		r.bySeconds, r.Delay = false, 0
		return nil
	}
	seconds, err := math.NaN(), error(nil)
	if value.Kind() == '0' {
		seconds, err = strconv.ParseFloat(string(value), 64)
	}
	if limit := queue.MaxPushDelay.Seconds(); err != nil || !(seconds >= 0 && seconds <= limit) {
		return queue.Invalidf("%sdelaySeconds must be a number between 0 and %.0f (a year), not %s", r.path, limit, wire.Clip(string(value)))
	}
	r.bySeconds, r.Delay = true, time.Duration(seconds*float64(time.Second))
	return r.onlyOneDelay()
}

// visibleAt reads the instant at which the message becomes visible. null counts
// as not sent.
func (r *itemReader) visibleAt(value jsontext.Value) error {
	if value.Kind() == 'n' {
		r.byInstant, r.VisibleAt = false, time.Time{}
		return nil
	}
	text, _ := wire.Text(value)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return queue.Invalidf("%svisibleAt must be an instant as in RFC 3339, such as 2026-05-16T08:41:27.5Z, not %s", r.path, wire.Clip(string(value)))
	}
	if at.After(time.Now().Add(queue.MaxPushDelay)) {
		return queue.Invalidf("%svisibleAt is %s: it must be at most %.0f seconds (a year) from now", r.path, wire.Clip(text), queue.MaxPushDelay.Seconds())
	}
	r.byInstant, r.VisibleAt = true, at
	return r.onlyOneDelay()
}

func (r *itemReader) onlyOneDelay() error {
	if r.bySeconds && r.byInstant {
		return queue.Invalidf("%sdelaySeconds and visibleAt say the same thing: send one of them", r.path)
	}
	return nil
}
