package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// change is what an action asks the API for.
type change struct {
	method, path string
	body         any
	// done is what the page says after it. back is where the browser goes; empty: where it came from.
	done, back string
}

// form are the fields of an action.
type form struct{ url.Values }

func (f form) queue() string { return f.Get("queue") }

// path returns a path of the API: format with each name escaped.
func path(format string, names ...string) string {
	escaped := make([]any, len(names))
	for i, name := range names {
		escaped[i] = url.PathEscape(name)
	}
	return fmt.Sprintf(format, escaped...)
}

// actions are what the buttons of the pages do. Each returns an error for a field that it cannot use.
var actions = map[string]func(f form) (change, error){
	"configure": configure,
	"push":      push,
	"pause-queue": func(f form) (change, error) {
		return pausing(f, path("/api/v1/resources/queues/%s", f.queue()), "The queue is "), nil
	},
	"pause-partition": func(f form) (change, error) {
		return pausing(f, path("/api/v1/resources/queues/%s/partitions/%s", f.queue(), f.Get("partition")), "The partition is "), nil
	},
	"pause-group": func(f form) (change, error) {
		return pausing(f, path("/api/v1/consumer-groups/%s/queues/%s", f.Get("group"), f.queue()), "The group is "), nil
	},
	"delete-queue": func(f form) (change, error) {
		return change{
			method: http.MethodDelete, path: path("/api/v1/resources/queues/%s", f.queue()), done: "The queue " + f.queue() + " is deleted.", back: "queues",
		}, f.confirmed(f.queue())
	},
	"delete-group": func(f form) (change, error) {
		return change{
			method: http.MethodDelete, path: path("/api/v1/consumer-groups/%s/queues/%s", f.Get("group"), f.queue()),
			done: "The group is deleted in this queue.", back: "queue?" + url.Values{"q": {f.queue()}}.Encode(),
		}, f.confirmed(f.queue())
	},
	"seek":                seek,
	"redrive":             redrive,
	"retry-message":       retryMessage,
	"dead-letter-message": deadLetterMessage,
	"delete-message":      deleteMessage,
	"delete-stream":       deleteStream,
	"maintenance":         turnMaintenance,
	"retry-rejected":      retryRejected,
	"discard-rejected":    discardRejected,
	"retry-row":           retryRows,
	"retry-rows":          retryRows,
	"discard-row":         func(f form) (change, error) { return discardRows(f), nil },
	"discard-rows":        func(f form) (change, error) { return discardRows(f), f.confirmed("delete") },
	"purge": func(f form) (change, error) {
		query := url.Values{"queue": {f.queue()}}
		for name, field := range map[string]string{"consumerGroup": "group", "partition": "partition", "error": "error"} {
			if f.Get(field) != "" {
				query.Set(name, f.Get(field))
			}
		}
		return change{method: http.MethodDelete, path: "/api/v1/dlq?" + query.Encode(), done: "The dead letters are deleted."}, f.confirmed(f.queue())
	},
}

// confirmed returns an error unless the person has typed a name.
func (f form) confirmed(name string) error {
	if f.Get("confirm") != name {
		return fmt.Errorf("type %q to confirm", name)
	}
	return nil
}

// pausing pauses what is at a path, or resumes it.
func pausing(f form, target, what string) change {
	c := change{method: http.MethodPost, path: target + "/pause", done: what + "paused: nothing is delivered until you resume it."}
	if f.Get("to") == "resume" {
		c.path, c.done = target+"/resume", what+"resumed."
	}
	if reason := f.Get("reason"); reason != "" {
		c.body = map[string]string{"reason": reason}
	}
	return c
}

// configure sends the body that the preview has made.
func configure(f form) (change, error) {
	var body struct {
		Queue     string         `json:"queue"`
		Namespace string         `json:"namespace"`
		Task      string         `json:"task"`
		Options   map[string]any `json:"options"`
	}
	if err := json.Unmarshal([]byte(f.Get("body")), &body); err != nil || body.Queue == "" {
		return change{}, errors.New("the form is incomplete: open the options of the queue again")
	}
	return change{
		method: http.MethodPost, path: "/api/v1/configure", body: body, done: "The options of " + body.Queue + " are in force on all instances.",
		back: "queue?" + url.Values{"q": {body.Queue}}.Encode(),
	}, nil
}

// push stores one message.
func push(f form) (change, error) {
	item := map[string]any{"queue": f.queue(), "payload": json.RawMessage(f.Get("payload"))}
	if !json.Valid([]byte(f.Get("payload"))) {
		return change{}, errors.New("the payload is not JSON")
	}
	for name, field := range map[string]string{"partition": "partition", "transactionId": "transaction"} {
		if f.Get(field) != "" {
			item[name] = f.Get(field)
		}
	}
	return change{method: http.MethodPost, path: "/api/v1/push", body: map[string]any{"items": []any{item}}, done: "The message is stored."}, nil
}

// seek moves a group.
func seek(f form) (change, error) {
	c := change{
		method: http.MethodPost, path: path("/api/v1/consumer-groups/%s/queues/%s/seek", f.Get("group"), f.queue()), done: "The group is moved.",
		back: "group?" + url.Values{"q": {f.queue()}, "g": {f.Get("group")}}.Encode(),
	}
	if partition := f.Get("partition"); partition != "" {
		c.path = path("/api/v1/consumer-groups/%s/queues/%s/partitions/%s/seek", f.Get("group"), f.queue(), partition)
	}
	switch f.Get("to") {
	case "beginning":
		c.body = map[string]any{"toBeginning": true}
	case "end":
		c.body = map[string]any{"toEnd": true}
	default:
		c.body = map[string]any{"timestamp": f.Get("at")}
	}
	return c, nil
}

// redrive delivers dead letters again.
func redrive(f form) (change, error) {
	body := map[string]any{"queue": f.queue(), "consumerGroup": f.Get("group")}
	c := change{method: http.MethodPost, path: "/api/v1/dlq/redrive", body: body, done: "The dead letters are delivered again."}
	for name, field := range map[string]string{"partition": "partition", "transactionId": "transaction", "error": "error"} {
		if f.Get(field) != "" {
			body[name] = f.Get(field)
		}
	}
	if len(body) == 2 {
		body["all"] = true
	}
	if text := f.Get("rate"); text != "" {
		rate, err := strconv.Atoi(text)
		if err != nil {
			return c, fmt.Errorf("the rate is %q: it must be a whole number", text)
		}
		body["rate"] = rate
	}
	return c, nil
}

// readForm returns the form of an action, and the action. nil: it has answered that there is none.
func (d *Dashboard) readForm(w http.ResponseWriter, r *http.Request) (f form, action func(f form) (change, error)) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The form cannot be read, or it is larger than 1 MiB.", http.StatusBadRequest)
		return f, nil
	}
	f = form{r.PostForm}
	switch action = actions[f.Get("action")]; {
	case action == nil:
		http.Error(w, "There is no such action.", http.StatusBadRequest)
	case d.cfg.ReadOnly:
		http.Error(w, "The dashboard is read-only: dashboard.read_only is true.", http.StatusForbidden)
		return f, nil
	}
	return f, action
}

// do serves POST do: it takes an action through the API, and sends the browser back.
func (d *Dashboard) do(w http.ResponseWriter, r *http.Request) {
	caller, err := d.caller(r)
	if err != nil {
		d.toSignIn(w, r, err)
		return
	}
	f, action := d.readForm(w, r)
	if action == nil {
		return
	}
	back := d.local(f.Get("back"))
	if back == "" {
		back = "./"
	}
	wanted, err := action(f)
	var answer any
	if err == nil {
		err = d.client.Do(caller, wanted.method, wanted.path, wanted.body, &answer)
	}
	var refused *source.Error
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized):
		http.Error(w, refused.Text, refused.Status)
		return
	case err != nil:
		setNotice(w, r, "Nothing was changed: "+errorText(err)+".", true)
	default:
		setNotice(w, r, wanted.done+counted(answer), false)
		if wanted.back != "" {
			back = wanted.back
		}
	}
	redirect(w, back)
}

// counted says how many an action has changed, if its answer has numbers.
func counted(answer any) string {
	members, _ := answer.(map[string]any)
	text := ""
	for _, field := range []struct{ name, text string }{
		{"redriven", "redriven"}, {"purged", "deleted"}, {"retried", "rows"}, {"discarded", "rows"}, {"messages", "messages"}, {"skipped", "skipped"}, {"partitionsUpdated", "partitions"}, {"remaining", "remain: do it again"},
	} {
		if n, ok := members[field.name].(float64); ok && (n > 0 || text == "" && field.name != "remaining" && field.name != "skipped") {
			text += fmt.Sprintf(" %.0f %s.", n, field.text)
		}
	}
	if members["more"] == true {
		text += " There are more: do it again."
	}
	return text
}
