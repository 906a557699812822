package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
)

// onMessage returns a change of one message.
func onMessage(f form, method, suffix, done string) change {
	return change{method: method, path: path("/api/v1/messages/%s/%s", f.Get("partition"), f.Get("transaction")) + suffix, done: done}
}

// retryMessage delivers a dead letter to one group again.
func retryMessage(f form) (change, error) {
	c := onMessage(f, http.MethodPost, "/retry", "The message is delivered again.")
	c.body = map[string]string{"consumerGroup": f.Get("group")}
	return c, nil
}

// resendMessage sends a message again with changes. The form has one transaction id, so sending it twice stores one message.
func resendMessage(f form) (change, error) {
	c := onMessage(f, http.MethodPost, "/resend", "The message is sent again.")
	payload := []byte(f.Get("payload"))
	if err := json.Unmarshal(payload, new(any)); err != nil {
		line := 1
		if wrong := (*json.SyntaxError)(nil); errors.As(err, &wrong) {
			line += bytes.Count(payload[:min(int(wrong.Offset), len(payload))], []byte("\n"))
		}
		return c, fmt.Errorf("the payload is not JSON, in line %d: %w", line, err)
	}
	body := map[string]any{
		"payload": json.RawMessage(payload), "queue": f.queue(), "partition": f.Get("to"), "transactionId": f.Get("once"), "remove": f.Get("remove") == "true",
	}
	var err error
	if body["headers"], err = f.headers(); err != nil {
		return c, err
	}
	c.body, c.describe = body, func(answer any) (string, bool) {
		made, _ := answer.(map[string]any)
		return fmt.Sprintf("The message is sent again as %v.", made["transactionId"]), false
	}
	return c, nil
}

// moveMessage changes the instant at which a message becomes visible, which is a time, a duration from now, or "now".
func moveMessage(f form) (change, error) {
	c := onMessage(f, http.MethodPatch, "", "The message is moved.")
	text := strings.TrimSpace(f.Get("to"))
	if at, ok := page.ParseInstant(text); ok {
		c.body = map[string]any{"visibleAt": at.UTC().Format(time.RFC3339Nano)}
	} else if delay, err := time.ParseDuration(text); err == nil {
		c.body = map[string]any{"delaySeconds": delay.Seconds()}
	} else if text == "now" {
		c.body = map[string]any{"visibleAt": nil}
	} else {
		return c, fmt.Errorf("the instant is %q: type a time in UTC such as 2026-05-16 08:41, a time from now such as 90m, or now", text)
	}
	c.describe = func(answer any) (string, bool) {
		moved, _ := answer.(map[string]any)
		at, err := time.Parse(time.RFC3339, fmt.Sprint(moved["visibleAt"]))
		if err != nil {
			return "The message can be delivered now.", false
		}
		return "The message is delivered at " + at.UTC().Format("2006-01-02 15:04:05") + " UTC or later.", false
	}
	return c, nil
}

// deadLetterMessage makes a message a dead letter of one group.
func deadLetterMessage(f form) (change, error) {
	c := onMessage(f, http.MethodPost, "/dlq", "The message is a dead letter.")
	body := map[string]string{"consumerGroup": f.Get("group")}
	if text := f.Get("error"); text != "" {
		body["error"] = text
	}
	c.body = body
	return c, nil
}

func deleteMessage(f form) (change, error) {
	c := onMessage(f, http.MethodDelete, "", "The message is deleted.")
	c.back = "messages?" + url.Values{"q": {f.queue()}}.Encode()
	return c, f.confirmed(f.Get("transaction"))
}

func deleteStream(f form) (change, error) {
	return change{method: http.MethodDelete, path: path("/api/v1/streams/%s", f.Get("id")), done: "The query and its state are deleted."}, f.confirmed(f.Get("name"))
}

// turnMaintenance turns push or pop maintenance on or off. Only turning it on needs a confirmation.
func turnMaintenance(f form) (change, error) {
	on, suffix, what := f.Get("to") == "on", "", "Push"
	if f.Get("switch") == "pop" {
		suffix, what = "/pop", "Pop"
	}
	c := change{
		method: http.MethodPost, path: "/api/v1/system/maintenance" + suffix, body: map[string]bool{"enabled": on}, done: what + " maintenance is off.",
	}
	if !on {
		return c, nil
	}
	c.done = what + " maintenance is on."
	return c, f.confirmed("maintenance")
}

func retryRejected(form) (change, error) {
	return change{method: http.MethodPost, path: "/api/v1/system/maintenance/rejected/retry", done: "The rejected messages are in the spool again."}, nil
}

func discardRejected(f form) (change, error) {
	return change{method: http.MethodDelete, path: "/api/v1/system/maintenance/rejected", done: "The rejected messages are removed."}, f.confirmed("remove")
}
