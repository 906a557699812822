package workload

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// unansweredPause is the pause after a malformed request without an answer. A stopped server refuses connections
// immediately, so without the pause the client would loop fast.
const unansweredPause = 10 * time.Millisecond

// malformed has requests that a server must always refuse.
var malformed = []struct{ target, body string }{
	{"/api/v1/push", ""},
	{"/api/v1/push", "{"},
	{"/api/v1/push", `{"items":[{"queue":"chaos.0","payload":1}]`},
	{"/api/v1/push", `{"items":[{"queue":"chaos.0","payload":{}},{"queue":7}]}`},
	{"/api/v1/push", `{"items":{"queue":"chaos.0"}}`},
	{"/api/v1/push", `{"items":[{"queue":"chaos.0","traceId":"no uuid","payload":1}]}`},
	{"/api/v1/push", `{"items":[{"queue":"chaos.0","transactionId":null}]}`},
	{"/api/v1/push", `{"items":[{"queue":"` + strings.Repeat("q", 256) + `"}]}`},
	{"/api/v1/push", "{\"items\":[{\"queue\":\"\xff\"}]}"},
	{"/api/v1/ack", `{"partitionId":"x"}`},
	{"/api/v1/ack", `[]`},
	{"/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"a"}]}`},
	{"/api/v1/ack/batch", `{"acknowledgments":"all"}`},
	{"/api/v1/lease/not-a-lease/extend", `{"seconds":"many"}`},
	{"/api/v1/lease/not-a-lease/extend", `{}`},
}

// sendMalformed sends malformed bodies and the requests of intruders to one server until stop ends. It sends each
// request right after the previous answer. Every answer must be a refusal, or 503 during a fault.
func (c *client) sendMalformed(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	foreign := &http.Client{Transport: &http.Transport{}}
	defer foreign.CloseIdleConnections()
	for stop.Err() == nil {
		if !c.intrude(ctx, foreign) {
			pause(stop, unansweredPause)
		}
		bad := malformed[c.choose.IntN(len(malformed))]
		got := c.send(ctx, http.MethodPost, bad.target, bad.body, 0)
		switch {
		case got.err != nil:
			c.clients.malformedUnanswered.Add(1)
			pause(stop, unansweredPause)
		case got.Status == http.StatusServiceUnavailable:
			c.clients.malformedUnavailable.Add(1)
		case got.Status >= http.StatusBadRequest && got.Status < http.StatusInternalServerError:
			c.clients.malformedRefused.Add(1)
		default:
			c.clients.complain("%s: POST %s with %q: status %d: %s", c.name, bad.target, bad.body, got.Status, got.Raw)
		}
	}
}
