package httpapi

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// delay reads when a pushed item becomes visible: delaySeconds, from the push on,
// or visibleAt; null counts as not sent.
type delay struct {
	// path is what precedes the name of a field in an error.
	path                 string
	bySeconds, byInstant bool
}

func (d *delay) seconds(item *queue.PushItem, value jsontext.Value) error {
	if value.Kind() == 'n' {
		d.bySeconds, item.Delay = false, 0
		return nil
	}
	seconds, err := math.NaN(), error(nil)
	if value.Kind() == '0' {
		seconds, err = strconv.ParseFloat(string(value), 64)
	}
	if limit := queue.MaxPushDelay.Seconds(); err != nil || !(seconds >= 0 && seconds <= limit) {
		return queue.Invalidf("%sdelaySeconds must be a number between 0 and %.0f (a year), not %s", d.path, limit, clip(string(value)))
	}
	d.bySeconds, item.Delay = true, time.Duration(seconds*float64(time.Second))
	return d.one()
}

func (d *delay) instant(item *queue.PushItem, value jsontext.Value) error {
	if value.Kind() == 'n' {
		d.byInstant, item.VisibleAt = false, time.Time{}
		return nil
	}
	said, _ := text(value)
	at, err := time.Parse(time.RFC3339, said)
	if err != nil {
		return queue.Invalidf("%svisibleAt must be an instant as in RFC 3339, such as 2026-05-16T08:41:27.5Z, not %s", d.path, clip(string(value)))
	}
	if at.After(time.Now().Add(queue.MaxPushDelay)) {
		return queue.Invalidf("%svisibleAt is %s: it must be at most %.0f seconds (a year) from now", d.path, clip(said), queue.MaxPushDelay.Seconds())
	}
	d.byInstant, item.VisibleAt = true, at
	return d.one()
}

func (d *delay) one() error {
	if d.bySeconds && d.byInstant {
		return queue.Invalidf("%sdelaySeconds and visibleAt say the same thing: send one of them", d.path)
	}
	return nil
}
