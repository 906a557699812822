package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/httpcall"
)

// target is a delivery that an intruder knows: the ids of a message, and its lease.
type target struct{ queue, group, partition, message, lease string }

// noteTarget tells the intruders a delivery.
func (c *Clients) noteTarget(d delivery) {
	m := d.Messages[0]
	c.target.Store(&target{d.queue, groupName(d.group), m.PartitionID, m.TransactionID, d.LeaseID})
}

// intrusions returns requests that would change data if the principal had the right. Their texts contain the mark.
func (t *target) intrusions() []httpcall.Call {
	const mark = principals.Mark
	push := fmt.Sprintf(`{"items":[{"queue":%q,"partition":"p0","transactionId":"%s","payload":"%s"}]}`, t.queue, mark, mark)
	ack := fmt.Sprintf(`"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":%q,"status":"dlq","error":"%s"}`, t.message, t.partition, t.lease, t.group, mark)
	message, group := "/api/v1/messages/"+t.partition+"/"+t.message, "/api/v1/consumer-groups/"+t.group
	return []httpcall.Call{
		{Method: http.MethodPost, Target: "/api/v1/push", Body: push},
		{Method: http.MethodPost, Target: "/api/v1/push", Body: strings.Replace(push, t.queue, mark, 1)},
		{Method: http.MethodPost, Target: "/api/v1/transaction", Body: `{"operations":[` + strings.Replace(push, "{", `{"type":"push",`, 1) + `,{"type":"ack",` + ack + `]}`},
		{Method: http.MethodPost, Target: "/api/v1/transaction", Body: `{"operations":[{"type":"ack",` + ack + `],"requiredLeases":["` + t.lease + `"]}`},
		{Method: http.MethodPost, Target: "/api/v1/ack", Body: "{" + ack},
		{Method: http.MethodPost, Target: "/api/v1/ack/batch", Body: `{"acknowledgments":[{` + ack + `]}`},
		{Method: http.MethodPost, Target: "/api/v1/lease/" + t.lease + "/extend", Body: `{"seconds":600}`},
		{Method: http.MethodGet, Target: "/api/v1/pop/queue/" + t.queue + "?consumerGroup=" + t.group + "&autoAck=true"},
		{Method: http.MethodGet, Target: "/api/v1/pop/queue/" + t.queue + "?consumerGroup=" + mark},
		{Method: http.MethodGet, Target: "/api/v1/pop/queue/" + t.queue + "/partition/p0?consumerGroup=" + t.group},
		{Method: http.MethodPost, Target: "/api/v1/configure", Body: `{"queue":"` + mark + `","options":{}}`},
		{Method: http.MethodPost, Target: "/api/v1/configure", Body: `{"queue":"` + t.queue + `","options":{"leaseTime":1}}`},
		{Method: http.MethodPost, Target: group + "/queues/" + t.queue + "/seek", Body: `{"toEnd":true}`},
		{Method: http.MethodPost, Target: "/api/v1/consumer-groups/" + mark + "/subscription", Body: `{"subscriptionTimestamp":"2000-01-01T00:00:00Z"}`},
		{Method: http.MethodPost, Target: "/api/v1/dlq/redrive", Body: `{"queue":"` + t.queue + `","consumerGroup":"` + t.group + `","all":true}`},
		{Method: http.MethodPost, Target: message + "/dlq", Body: `{"consumerGroup":"` + t.group + `","error":"` + mark + `"}`},
		{Method: http.MethodPost, Target: message + "/retry", Body: "{}"},
		{Method: http.MethodPost, Target: "/api/v1/traces", Body: fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"data":"%s"}`, t.message, t.partition, mark)},
		{Method: http.MethodDelete, Target: message},
		{Method: http.MethodDelete, Target: group + "/queues/" + t.queue},
		{Method: http.MethodDelete, Target: group},
		{Method: http.MethodDelete, Target: "/api/v1/resources/queues/" + t.queue},
		{Method: http.MethodDelete, Target: "/api/v1/dlq?queue=" + t.queue},
	}
}

// intrude sends one request that the principal must not make. It complains unless the server refuses the request, or
// answers that the message or the lease does not exist. answered is false if no answer arrived.
func (c *client) intrude(ctx context.Context, sender *http.Client) (answered bool) {
	t := c.clients.target.Load()
	if t == nil {
		return true // nothing was delivered yet
	}
	calls := t.intrusions()
	call := calls[c.choose.IntN(len(calls))]
	tokens := []string{"Bearer " + principals.Tenant, "Bearer " + principals.Reader, principals.Refused[c.choose.IntN(len(principals.Refused))]}
	kind := c.choose.IntN(len(tokens))
	call.Token = tokens[kind]
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := httpcall.Send(ctx, sender, c.urls[0], call)
	switch {
	case err != nil:
		c.clients.malformedUnanswered.Add(1)
		return false
	case got.Status == http.StatusServiceUnavailable:
		c.clients.malformedUnavailable.Add(1)
	case got.Status == http.StatusUnauthorized && kind == 2, got.Status == http.StatusForbidden && kind != 2, kind == 0 && saysMissing(got):
		c.clients.intrusionsRefused.Add(1)
	default:
		c.clients.complain("%s: %s %s with %q as %.80q: status %d: %s", c.name, call.Method, call.Target, call.Body, call.Token, got.Status, got.Raw)
	}
	return true
}

// saysMissing reports whether an answer says that the object of the request does not exist.
func saysMissing(got httpcall.Reply) bool {
	if got.Status == http.StatusNotFound {
		return true
	}
	body := strings.TrimSuffix(strings.TrimPrefix(string(got.Raw), "["), "]") // body of an ack
	var answer struct{ Success *bool }
	return got.Status == http.StatusOK && json.Unmarshal([]byte(body), &answer) == nil && answer.Success != nil && !*answer.Success
}
