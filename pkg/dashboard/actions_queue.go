package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/pages"
	"github.com/belfry-mq/belfry/pkg/dashboard/schedules"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// configure makes only the changes that the preview has shown. It keeps other changes that were made since the preview.
func configure(f form) (change, error) {
	var changes []pages.Change
	name := f.queue()
	if err := json.Unmarshal([]byte(f.Get("changes")), &changes); err != nil || name == "" {
		return change{}, errors.New("the form is incomplete: open the options of the queue again")
	}
	return change{
		method: http.MethodPost, path: "/api/v1/configure", done: "The options of " + name + " are in force on all instances.",
		back: "queue?" + url.Values{"q": {name}}.Encode(),
		prepare: func(d *Dashboard, caller *source.Caller) (any, error) {
			status := &api.QueueStatus{}
			err := d.client.Load(caller.Request.Context(), caller, path("/api/v1/status/queues/%s?limit=0&countLimit=0", name), status)
			exists := !source.IsStatus(err, http.StatusNotFound)
			if !exists {
				status = nil
			}
			switch {
			case err != nil && exists:
				return nil, err
			case exists && f.Get("new") != "":
				return nil, errors.New("the queue " + name + " exists now: edit its options")
			case !exists && f.Get("new") == "":
				return nil, errors.New("the queue " + name + " was deleted meanwhile")
			}
			return pages.Configuration(name, status, changes)
		},
	}, nil
}

// push stores one message. The page gives each form a transaction id. So a form that is sent twice stores one message.
func push(f form) (change, error) {
	item := map[string]any{"queue": f.queue(), "payload": json.RawMessage(f.Get("payload"))}
	if !json.Valid([]byte(f.Get("payload"))) {
		return change{}, errors.New("the payload is not JSON")
	}
	for _, field := range [][2]string{{"partition", "partition"}, {"transactionId", "once"}, {"transactionId", "transaction"}} {
		if value := f.Get(field[1]); value != "" {
			item[field[0]] = value
		}
	}
	headers, err := f.headers()
	if err != nil {
		return change{}, err
	}
	if len(headers) > 0 {
		item["headers"] = headers
	}
	return change{method: http.MethodPost, path: "/api/v1/push", body: map[string]any{"items": []any{item}}, describe: func(answer any) (string, bool) {
		return describePush(answer, f.Get("transaction") == "")
	}}, nil
}

// headers returns the headers of a message from a field.
func (f form) headers() (map[string]string, error) { return schedules.Headers(f.Get("headers")) }

// describePush returns the text for the answer to a push. once is true if the page gave the transaction id.
func describePush(answer any, once bool) (text string, failed bool) {
	status, reason := "", ""
	if list, _ := answer.([]any); len(list) == 1 {
		result, _ := list[0].(map[string]any)
		status, _ = result["status"].(string)
		reason, _ = result["error"].(string)
	}
	switch status {
	case "queued":
		return "The message is stored.", false
	case "duplicate":
		if once {
			return "The message was already stored when this form was sent before.", false
		}
		return "Nothing was stored: the partition has a message with this transaction id.", true
	case "buffered":
		return "The message waits in the spool of this instance: push maintenance is on.", false
	}
	return "Nothing was stored: " + reason + ".", true
}
