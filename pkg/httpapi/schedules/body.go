package schedules

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/schedule"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// readDefinition reads and checks the body of PUT. The store checks the values together.
func (h *Handlers) readDefinition(p *wire.Params, d *schedule.Definition) error {
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) error {
		if name == "payload" {
			d.Payload = json.RawMessage(value.Clone())
			return nil
		}
		if value.Kind() == 'n' {
			return nil
		}
		return member(d, name, value)
	})
	switch {
	case err != nil:
		return err
	case d.Queue == "":
		return queue.Invalidf("queue is required: the name of the queue that gets the messages")
	case d.Payload == nil:
		return queue.Invalidf("payload is required: send null for the JSON value null")
	}
	return nil
}

// member reads a member of the body.
func member(d *schedule.Definition, name string, value jsontext.Value) (err error) {
	names := map[string]*string{"queue": &d.Queue, "partition": &d.Partition, "overlapGroup": &d.OverlapGroup}
	texts := map[string]*string{"cron": &d.Spec.Cron, "zone": &d.Spec.Zone, "missed": &d.Missed}
	instants := map[string]*time.Time{"at": &d.Spec.At, "starts": &d.Spec.Starts, "ends": &d.Spec.Ends}
	durations := map[string]*time.Duration{"every": &d.Spec.Every, "jitter": &d.Jitter}
	switch {
	case names[name] != nil:
		if *names[name], err = text(name, value); err == nil {
			err = wire.CheckName(name, *names[name])
		}
	case texts[name] != nil:
		*texts[name], err = text(name, value)
	case instants[name] != nil:
		*instants[name], err = instant(name, value)
	case durations[name] != nil:
		*durations[name], err = duration(name, value)
	case name == "headers":
		d.Headers, err = queue.ParseHeaders(name, value)
	case name == "delaySeconds":
		d.Delay, err = wire.Delay(name, value)
	case name == "paused":
		paused := false
		paused, err = wire.Bool(name, value)
		d.Pause = &paused
	default: // a misspelled member would change when the messages come
		err = queue.Invalidf("the member %s is not known: use queue, partition, cron, every, at, zone, payload, headers, delaySeconds, starts, ends, jitter, missed, overlapGroup and paused",
			wire.Clip(fmt.Sprintf("%q", name)))
	}
	return err
}

// text reads a text without NUL.
func text(name string, value jsontext.Value) (string, error) {
	s, ok := wire.Text(value)
	if !ok || s != wire.ReplaceNUL(s) {
		return "", queue.Invalidf("%s must be a string without NUL characters, not %s", name, wire.Clip(string(value)))
	}
	return s, nil
}

// instant reads an instant with its offset. Answers have milliseconds, so it drops the rest.
func instant(name string, value jsontext.Value) (time.Time, error) {
	s, _ := wire.Text(value)
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, queue.Invalidf("%s must be an instant as in RFC 3339, such as 2026-05-16T08:41:27Z, not %s", name, wire.Clip(string(value)))
	}
	return at.Truncate(time.Millisecond), nil
}

// duration reads a duration.
func duration(name string, value jsontext.Value) (time.Duration, error) {
	s, _ := wire.Text(value)
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d == 0 && name == "every" {
		return 0, queue.Invalidf("%s must be a duration such as \"10s\", \"15m\" or \"1h30m\", not %s", name, wire.Clip(string(value)))
	}
	return d, nil
}

// parametersOf returns the parameters of the row of the audit. They have no payload and no headers.
func parametersOf(d *schedule.Definition) audit.Parameters {
	parameters := audit.Parameters{"schedule": d.Name}
	for name, value := range map[string]string{
		"cron": d.Spec.Cron, "every": durationText(d.Spec.Every), "at": instantText(d.Spec.At), "zone": d.Spec.Zone,
		"starts": instantText(d.Spec.Starts), "ends": instantText(d.Spec.Ends), "jitter": durationText(d.Jitter), "missed": d.Missed, "overlapGroup": d.OverlapGroup,
	} {
		if value != "" {
			parameters[name] = value
		}
	}
	if d.Pause != nil {
		parameters["paused"] = *d.Pause
	}
	return parameters
}

func instantText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return wire.FormatMillis(at)
}
