package dashboard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// change is what an action asks the API for.
type change struct {
	method, path string
	body         any
	// done is what the page says after it. back is where the browser goes; empty: where it came from.
	done, back string
	// prepare returns the body, if it depends on what the API has now. Nil: it is body.
	prepare func(d *Dashboard, caller *source.Caller) (any, error)
	// told says what the answer means. Nil: done, with its numbers.
	told func(answer any) (text string, failed bool)
}

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
		for name, field := range map[string]string{"consumerGroup": "group", "partition": "partition", "error": "error", "from": "from", "to": "to"} {
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
	for name, field := range map[string]string{"partition": "partition", "transactionId": "transaction", "error": "error", "from": "from", "to": "to"} {
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

// errReadOnly refuses every action.
var errReadOnly = errors.New("the dashboard is read-only: dashboard.read_only is true")

// take takes the action of a form. It returns the text for the person, and where the browser goes if that is
// not where it came from.
func (d *Dashboard) take(caller *source.Caller, f form) (text, back string, err error) {
	action := actions[f.Get("action")]
	switch {
	case action == nil:
		return "", "", errors.New("there is no such action")
	case d.cfg.ReadOnly:
		return "", "", errReadOnly
	}
	wanted, err := action(f)
	if err == nil && wanted.prepare != nil {
		wanted.body, err = wanted.prepare(d, caller)
	}
	var answer any
	if err == nil {
		err = d.client.Do(caller, wanted.method, wanted.path, wanted.body, &answer)
	}
	switch {
	case err != nil:
		return "", "", err
	case wanted.told == nil:
		return wanted.done + counted(answer), wanted.back, nil
	}
	text, failed := wanted.told(answer)
	if failed {
		return "", "", toldError(text)
	}
	return text, wanted.back, nil
}

// toldError says why the change that the person wanted was not made, as a whole sentence.
type toldError string

func (e toldError) Error() string { return string(e) }

// cameFrom returns the page that sent a form.
func (d *Dashboard) cameFrom(r *http.Request) string {
	if back := r.PostForm.Get("back"); back != "" && d.local(back) != "" {
		return d.local(back)
	}
	if _, page, found := strings.Cut(r.Referer(), prefix); found && d.local(page) != "" {
		return d.local(page)
	}
	return "./"
}

// do serves POST do: it takes an action through the API, and sends the browser back. A script sends the form with
// the header X-Form. The answer then has, in Location, the page where the browser goes. Or it has the reason of a
// refusal, so that the form stays as it is.
func (d *Dashboard) do(w http.ResponseWriter, r *http.Request) {
	caller, signedOut := d.caller(r)
	var text, to string
	err := signedOut
	if err == nil { // the form of anybody else is not read
		var end func()
		end, err = d.readForm(w, r, maxForm)
		defer end()
	}
	back := d.cameFrom(r)
	switch {
	case signedOut != nil:
		to = "sign-in?" + url.Values{"next": {back}}.Encode()
	case err == nil:
		text, to, err = d.take(caller, form{lines(r.PostForm)})
	}
	var told toldError
	if err != nil && !errors.As(err, &told) {
		told = toldError("Nothing was changed: " + errorText(err) + ".")
	}
	if told != "" && isByScript(r) {
		if signedOut != nil {
			told += " Sign in in another tab, then send the form again."
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, string(told)) // with status 200: a browser logs others as errors of the page
		return
	}
	setNotice(w, r, text+string(told), told != "")
	if to != "" {
		back = to
	}
	leave(w, r, back)
}

func isByScript(r *http.Request) bool { return r.Header.Get("X-Form") != "" }

// leave sends the browser to a page, or tells a script to do so. A script would follow a redirect itself and so
// read the text that is kept for the page.
func leave(w http.ResponseWriter, r *http.Request, to string) {
	if !isByScript(r) {
		redirect(w, to)
		return
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusNoContent)
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
