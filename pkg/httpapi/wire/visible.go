package wire

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Delay reads a number of seconds until a message becomes visible, which may have a fraction.
func Delay(field string, value jsontext.Value) (time.Duration, error) {
	n, err := math.NaN(), error(nil)
	if value.Kind() == '0' {
		n, err = strconv.ParseFloat(string(value), 64)
	}
	if limit := queue.MaxPushDelay.Seconds(); err != nil || !(n >= 0 && n <= limit) {
		return 0, queue.Invalidf("%s must be a number between 0 and %.0f (a year), not %s", field, limit, Clip(string(value)))
	}
	return time.Duration(n * float64(time.Second)), nil
}

// maxGroupPause is the longest pause of a consumer group that a consumer may ask for.
const maxGroupPause = 24 * time.Hour

// GroupPause reads a number of seconds for which a consumer group gets no message.
func GroupPause(field string, value jsontext.Value) (time.Duration, error) {
	pause, err := Delay(field, value)
	if err != nil || pause <= 0 || pause > maxGroupPause {
		return 0, queue.Invalidf("%s must be a number of seconds above 0 and at most %.0f (a day), not %s", field, maxGroupPause.Seconds(), Clip(string(value)))
	}
	return pause, nil
}

// VisibleAt reads the instant at which a message becomes visible.
func VisibleAt(field string, value jsontext.Value) (time.Time, error) {
	text, _ := Text(value)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, queue.Invalidf("%s must be an instant as in RFC 3339, such as 2026-05-16T08:41:27.5Z, not %s", field, Clip(string(value)))
	}
	if at.After(time.Now().Add(queue.MaxPushDelay)) {
		return at, queue.Invalidf("%s is %s: it must be at most %.0f seconds (a year) from now", field, Clip(text), queue.MaxPushDelay.Seconds())
	}
	return at, nil
}
