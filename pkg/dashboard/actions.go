package dashboard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// change is the request to the API that an action causes.
type change struct {
	method, path string
	body         any
	// done is the text for the next page. back is the next page of the browser. If back is empty, the browser returns
	// to the page of the form.
	done, back string
	// each are requests that are sent instead of path, one for each chosen dead letter.
	each []change
	// prepare reads the API and returns the body. If prepare is nil, the request has body.
	prepare func(d *Dashboard, caller *source.Caller) (any, error)
	// describe returns the text for an answer. If describe is nil, the text is done with the numbers of the answer.
	describe func(answer any) (text string, failed bool)
	// follow returns the next page for an answer. If follow is nil, it is back.
	follow func(answer any) (back string)
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

// actions are the actions of the buttons, by name. Each returns an error for an invalid field.
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
	"redrive-job": redriveJob,
	"stop-job": func(f form) (change, error) {
		return change{method: http.MethodPost, path: path("/api/v1/dlq/jobs/%s/stop", f.Get("job")), done: "The redrive job is stopped."}, nil
	},
	"undo": func(f form) (change, error) {
		return change{method: http.MethodPost, path: path("/api/v1/audit/%s/undo", f.Get("id")), done: "The change is undone.", back: "audit"}, nil
	},
	"set-schedule":        setSchedule,
	"pause-schedule":      func(f form) (change, error) { return pauseSchedule(f), nil },
	"run-schedule":        func(f form) (change, error) { return runSchedule(f), nil },
	"delete-schedule":     deleteSchedule,
	"seek":                seek,
	"redrive":             redrive,
	"redrive-chosen":      redriveChosen,
	"discard-chosen":      discardChosen,
	"retry-message":       retryMessage,
	"resend-message":      resendMessage,
	"move-message":        moveMessage,
	"dead-letter-message": deadLetterMessage,
	"delete-message":      deleteMessage,
	"delete-stream":       deleteStream,
	"revoke-token":        func(f form) (change, error) { return revokeToken(f), nil },
	"give-grant":          func(f form) (change, error) { return changeGrant(f, false), nil },
	"revoke-grant":        func(f form) (change, error) { return changeGrant(f, true), nil },
	"maintenance":         turnMaintenance,
	"retry-rejected":      retryRejected,
	"discard-rejected":    discardRejected,
	"retry-row":           retryRows,
	"retry-rows":          retryRows,
	"discard-row":         func(f form) (change, error) { return discardRows(f), nil },
	"discard-rows":        func(f form) (change, error) { return discardRows(f), f.confirmed("delete") },
	"purge":               purge,
}

// confirmed returns an error if the person has not typed the name.
func (f form) confirmed(name string) error {
	if f.Get("confirm") != name {
		return fmt.Errorf("type %q to confirm", name)
	}
	return nil
}

// pausing pauses or resumes the queue, partition or group at a path of the API.
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
	case "end": // what came after the count is not skipped
		c.body = map[string]any{"timestamp": f.Get("at")}
		return c, f.confirmed(f.queue())
	default:
		c.body = map[string]any{"timestamp": f.Get("at")}
	}
	return c, nil
}

// redrive delivers dead letters again.
func redrive(f form) (change, error) {
	body := map[string]any{"queue": f.queue(), "consumerGroup": f.Get("group")}
	c := change{method: http.MethodPost, path: "/api/v1/dlq/redrive", body: body, done: "The dead letters are delivered again."}
	for name, field := range map[string]string{"partition": "partition", "transactionId": "transaction", "error": "error", "errorShape": "shape", "from": "from", "to": "to"} {
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
	if f.Get("as-of") == "" {
		body["dryRun"] = true
		return c.counting(f, "redrive"), nil
	}
	body["asOf"], c.back = f.Get("as-of"), f.letters().link()
	return c, nil
}

// redriveJob starts a redrive that the server runs.
func redriveJob(f form) (change, error) {
	c, err := redrive(f)
	if f.Get("as-of") == "" {
		return c.counting(f, "redrive-job"), err
	}
	c.path, c.back, c.describe = "/api/v1/dlq/jobs", "jobs", func(any) (string, bool) { return "The redrive job is started.", false }
	return c, err
}

// errReadOnly refuses every action.
var errReadOnly = errors.New("the dashboard is read-only: dashboard.read_only is true")

// take performs the action of a form. It returns the text for the person. back is the next page of the browser. If back
// is empty, the browser returns to the page of the form.
func (d *Dashboard) take(caller *source.Caller, f form) (text, back string, err error) {
	action := actions[f.Get("action")]
	switch {
	case action == nil:
		return "", "", errors.New("there is no such action")
	case d.cfg.ReadOnly:
		return "", "", errReadOnly
	}
	wanted, err := action(f)
	if err == nil && wanted.each != nil {
		return d.takeEach(caller, &wanted)
	}
	if err == nil && wanted.prepare != nil {
		wanted.body, err = wanted.prepare(d, caller)
	}
	var answer any
	if err == nil {
		err = d.client.Do(caller, wanted.method, wanted.path, wanted.body, &answer)
	}
	if err == nil && wanted.follow != nil {
		wanted.back = wanted.follow(answer)
	}
	switch {
	case err != nil:
		return "", "", err
	case wanted.describe == nil:
		return wanted.done + counted(answer), wanted.back, nil
	}
	text, failed := wanted.describe(answer)
	if failed {
		return "", "", sentenceError(text)
	}
	return text, wanted.back, nil
}

// sentenceError says in a whole sentence why an action changed nothing.
type sentenceError string

func (e sentenceError) Error() string { return string(e) }

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

// do serves POST do: it performs an action through the API, and redirects the browser. A script sends the form with the
// header X-Form. After a success, the answer to the script has the next page in Location. After a refusal, it has the
// reason as text, and the script leaves the form as it is.
func (d *Dashboard) do(w http.ResponseWriter, r *http.Request) {
	caller, signedOut := d.session(w, r)
	var text, to string
	err := signedOut
	if err == nil { // without a valid session, the form is not read
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
	var reason sentenceError
	if err != nil && !errors.As(err, &reason) {
		reason = sentenceError("Nothing was changed: " + errorText(err) + ".")
	}
	if reason != "" && isByScript(r) {
		if signedOut != nil {
			reason += " Sign in in another tab, then send the form again."
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, string(reason)) // with status 200, because a browser logs other statuses as errors
		return
	}
	setNotice(w, r, text+string(reason), reason != "")
	if to != "" {
		back = to
	}
	leave(w, r, back)
}

func isByScript(r *http.Request) bool { return r.Header.Get("X-Form") != "" }

// leave redirects the browser to a page. A script gets the page in Location instead. If a script followed a redirect, its
// request would take the notice that is kept for the page.
func leave(w http.ResponseWriter, r *http.Request, to string) {
	if !isByScript(r) {
		redirect(w, to)
		return
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusNoContent)
}

// counted returns the numbers of an answer as text.
func counted(answer any) string {
	members, _ := answer.(map[string]any)
	text := ""
	for _, field := range []struct{ name, one, many string }{
		{"redriven", "redriven", "redriven"}, {"purged", "deleted", "deleted"}, {"retried", "row", "rows"}, {"discarded", "row", "rows"},
		{"messages", "message", "messages"}, {"skipped", "skipped", "skipped"}, {"partitionsUpdated", "partition", "partitions"},
		{"remaining", "remains: do it again", "remain: do it again"},
	} {
		if n, ok := members[field.name].(float64); ok && (n > 0 || text == "" && field.name != "remaining" && field.name != "skipped") {
			text += " " + page.Plural(int64(n), field.one, field.many) + "."
		}
	}
	if members["more"] == true {
		text += " There are more: do it again."
	}
	return text
}
