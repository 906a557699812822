package schedules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

type editData struct {
	Name string
	// Exists is true if the form changes a schedule. Changed is then the instant of its last change.
	Exists  bool
	Changed string
	// Fields are the values of the form, by their names.
	Fields  map[string]string
	Choices []page.Choice
	// Preview is the schedule that the form makes. It is nil without a preview, and if the server would refuse the form.
	Preview  *api.Schedule
	Instants Instants
	// Refused has the reason why the server would refuse the form, by the name of the field. Its name is empty if the reason is about
	// several fields.
	Refused map[string]string
	// Queue is the queue of the schedule that exists.
	Queue string
}

// fields are the names of the fields of the form, without the name of the schedule.
var fields = []string{
	"queue", "cron", "every", "at", "zone", "payload", "headers", "partition", "delay", "starts", "ends", "jitter", "missed", "overlapGroup",
}

// edit shows the form of a schedule. If the form was sent for a preview, it shows the next instants, or why the server would refuse
// the form.
func edit(r *page.Request) (*page.Content, error) {
	d := &editData{
		Name: r.Query.Get("name"), Changed: r.Query.Get("changed"), Fields: map[string]string{"queue": r.Query.Get("queue"), "payload": "{}"}, Refused: map[string]string{},
		Choices: page.Choices("one", "one message for all of them", "skip", "no message", "all", "a message for each, at most 1,000"),
	}
	sent := r.Query.Get("preview") != ""
	if d.Exists = d.Name != "" && r.Query.Get("new") == ""; d.Exists {
		found, err := source.Read[api.Schedule](r.Ctx, r.Client, r.Caller, pathOf(d.Name))
		if err != nil {
			return nil, err
		}
		d.Queue = found.Queue
		if !sent {
			d.Fields, d.Changed = fieldsOf(found), Mark(found)
		}
	}
	content := &page.Content{Title: "New schedule", Data: d}
	if d.Exists {
		content.Title = "Edit the schedule " + d.Name
	}
	if !sent {
		return content, nil
	}
	for _, name := range fields {
		d.Fields[name] = r.Query.Get(name)
	}
	body, err := Body(r.Query)
	if err == nil {
		err = d.try(r, content, body)
	}
	var refused *source.Error
	var field *FieldError
	switch {
	case errors.As(err, &field):
		d.Refused[field.Field] = field.Text
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		d.Refused[memberOf(refused.Text)] = refused.Text
	default:
		return content, err
	}
	return content, nil
}

// try asks the server what the form would do.
func (d *editData) try(r *page.Request, content *page.Content, body map[string]any) error {
	var answer api.ScheduleSet
	if err := r.Client.DryRun(r.Ctx, r.Caller, pathOf(d.Name)+"?dryRun=true", body, &answer); err != nil {
		return err
	}
	if !d.Exists && !answer.Created {
		return Taken(d.Name)
	}
	d.Preview, d.Instants = &answer.Schedule, Instants{answer.Schedule.Zone, answer.Schedule.Next}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a schedule: %w", err)
	}
	content.Commands = []page.Command{r.Command("Do the same", http.MethodPut, pathOf(d.Name), string(text), nil)}
	return nil
}

// FieldError says what is wrong with a field of the form.
type FieldError struct{ Field, Text string }

// Error returns the reason.
func (e *FieldError) Error() string { return e.Text }

// Taken returns the error for a new schedule whose name another schedule has.
func Taken(name string) error {
	return &FieldError{"name", "there is a schedule with the name " + name + ": choose another name, or edit that schedule"}
}

// Mark returns the text by which a form recognizes that a schedule has changed since.
func Mark(s *api.Schedule) string { return s.ChangedAt.UTC().Format(time.RFC3339Nano) }

// memberOf returns the field that a reason of the API is about, or "". It is the first field that the reason names before its colon.
func memberOf(text string) string {
	fault, _, _ := strings.Cut(text, ": ")
	for _, word := range strings.FieldsFunc(fault, func(r rune) bool { return r == ' ' || r == '.' || r == '[' || r == ',' }) {
		switch {
		case word == "delaySeconds":
			return "delay"
		case slices.Contains(fields, word):
			return word
		}
	}
	return ""
}

// fieldsOf returns the values of the form for a schedule.
func fieldsOf(s *api.Schedule) map[string]string {
	payload := page.Payload{Raw: string(s.Payload)}
	values := map[string]string{
		"queue": s.Queue, "cron": s.Cron, "every": s.Every, "at": instantOf(s.At), "zone": s.Zone, "payload": payload.Editable(), "partition": s.Partition,
		"starts": instantOf(s.Starts), "ends": instantOf(s.Ends), "jitter": s.Jitter, "missed": s.Missed, "overlapGroup": s.OverlapGroup,
	}
	if s.DelaySeconds > 0 {
		values["delay"] = strconv.FormatFloat(s.DelaySeconds, 'f', -1, 64) + "s"
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		values["headers"] += name + ": " + s.Headers[name] + "\n"
	}
	return values
}

func instantOf(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// Body returns the body of PUT for the values of the form. Errors: *FieldError.
func Body(form url.Values) (map[string]any, error) {
	body := map[string]any{"queue": form.Get("queue")}
	for _, name := range []string{"cron", "every", "zone", "jitter"} {
		if text := strings.TrimSpace(form.Get(name)); text != "" {
			body[name] = text
		}
	}
	for _, name := range []string{"partition", "missed", "overlapGroup"} {
		if text := form.Get(name); text != "" {
			body[name] = text
		}
	}
	for _, name := range []string{"at", "starts", "ends"} {
		text := strings.TrimSpace(form.Get(name))
		at, ok := page.ParseInstant(text)
		switch {
		case ok:
			body[name] = at.UTC().Format(time.RFC3339Nano)
		case text != "":
			return nil, &FieldError{name, fmt.Sprintf("%s is %q: write a time in UTC such as 2026-05-16 08:41, or with an offset such as 2026-05-16T08:41:00+02:00", name, text)}
		}
	}
	payload := []byte(form.Get("payload"))
	if err := json.Unmarshal(payload, new(any)); err != nil {
		return nil, &FieldError{"payload", "the payload is not JSON: " + err.Error()}
	}
	body["payload"] = json.RawMessage(payload)
	if text := strings.TrimSpace(form.Get("delay")); text != "" {
		delay, err := time.ParseDuration(text)
		if seconds, numeric := strconv.ParseFloat(text, 64); numeric == nil {
			delay, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if err != nil {
			return nil, &FieldError{"delay", fmt.Sprintf("delay is %q: write a time such as 30s or 5m", text)}
		}
		body["delaySeconds"] = delay.Seconds()
	}
	headers, err := Headers(form.Get("headers"))
	if len(headers) > 0 {
		body["headers"] = headers
	}
	return body, err
}

// Headers returns the headers of a message from a text with one header per line: NAME: VALUE. Errors: *FieldError.
func Headers(text string) (map[string]string, error) {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, &FieldError{"headers", fmt.Sprintf("the header %q has no colon: write one header per line, such as tenant: acme", line)}
		}
		all[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return all, nil
}
