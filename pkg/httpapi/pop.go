package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// What one pop may ask for at most; more is served as this much.
const (
	maxBatch      = 10_000
	maxPartitions = 200
	maxWait       = 10 * time.Minute
)

// popQueue serves GET /api/v1/pop/queue/:queue: any partition.
func (s *Server) popQueue(c echo.Context) error {
	req, err := s.popRequest(c)
	if err != nil {
		return err
	}
	if req.Queue, err = pathName(c, "queue"); err != nil {
		return err
	}
	return s.pop(c, req)
}

// popPartition serves GET /api/v1/pop/queue/:queue/partition/:partition.
func (s *Server) popPartition(c echo.Context) error {
	req, err := s.popRequest(c)
	if err != nil {
		return err
	}
	if req.Queue, err = pathName(c, "queue"); err != nil {
		return err
	}
	partition, err := pathName(c, "partition")
	if err != nil {
		return err
	}
	req.Partition, req.Partitions = &partition, 1
	if leadingInt(c.QueryParam("batch"), 1) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	return s.pop(c, req)
}

// popTagged serves GET /api/v1/pop?namespace=&task=: all matching queues.
func (s *Server) popTagged(c echo.Context) error {
	req, err := s.popRequest(c)
	if err != nil {
		return err
	}
	req.Tags = &queue.Tags{Namespace: c.QueryParam("namespace"), Task: c.QueryParam("task")}
	if *req.Tags == (queue.Tags{}) {
		return queue.Invalidf("namespace or task is required: /api/v1/pop?namespace=...&task=..., " +
			"or name a queue: /api/v1/pop/queue/NAME")
	}
	for _, tag := range []struct{ field, value string }{{"namespace", req.Tags.Namespace}, {"task", req.Tags.Task}} {
		if !validText(tag.value) {
			return queue.Invalidf("%s is not UTF-8", tag.field)
		}
		if err := checkName(tag.field, tag.value); err != nil {
			return err
		}
	}
	return s.pop(c, req)
}

// pop answers and hands the lease back when the answer cannot be written.
func (s *Server) pop(c echo.Context, req *queue.PopRequest) error {
	delivery, err := s.deps.Popper.Pop(c.Request().Context(), req)
	if err != nil {
		return err
	}
	if len(delivery.Messages) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	if err := hand(c, appendDelivery(nil, delivery)); err != nil {
		s.deps.Popper.Release(c.Request().Context(), delivery)
		return err
	}
	s.deps.Metrics.delivered(delivery)
	return nil
}

// hand is answer for messages, which are lost on a client that has left. It looks for
// that before the last byte: until then nobody can have read them, and from then on a
// client may have read them all and left before this returns.
func hand(c echo.Context, body []byte) error {
	r := c.Response()
	r.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	r.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	r.WriteHeader(http.StatusOK)
	last := len(body) - 1
	if _, err := r.Write(body[:last]); err != nil {
		return err
	}
	if err := c.Request().Context().Err(); err != nil {
		return err
	}
	if _, err := r.Write(body[last:]); err != nil {
		return err
	}
	return http.NewResponseController(r.Writer).Flush() // r's own Flush says nothing of an error
}

// pathName returns a path parameter, decoded, if it can be a name.
func pathName(c echo.Context, param string) (string, error) {
	name, err := unescaped(c, param)
	if err != nil {
		return "", err
	}
	return name, checkName("the "+param+" in the path", name)
}

// unescaped returns a path parameter, decoded, if it is text.
func unescaped(c echo.Context, param string) (string, error) {
	raw := c.Param(param)
	name := raw
	if c.Request().URL.RawPath != "" {
		// The router matched the escaped path.
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			return "", queue.Invalidf("the %s in the path is not well escaped: %v", param, err)
		}
		name = decoded
	}
	if !validText(name) {
		return "", queue.Invalidf("the %s in the path is not UTF-8", param)
	}
	return name, nil
}

// popRequest reads the query. An unknown or unreadable value falls back to its
// default, as the contract says.
func (s *Server) popRequest(c echo.Context) (*queue.PopRequest, error) {
	query := c.QueryParams()
	d := s.deps.Defaults
	req := &queue.PopRequest{
		Group:      query.Get("consumerGroup"),
		Batch:      between(1, leadingInt(query.Get("batch"), d.PopBatchSize), maxBatch),
		Partitions: between(1, leadingInt(query.Get("partitions"), 1), maxPartitions),
		AutoAck:    isTrue(query.Get("autoAck")),
	}
	if req.Group == "" {
		req.Group = queue.NoGroup
	}
	if !validText(req.Group) {
		return nil, queue.Invalidf("consumerGroup is not UTF-8")
	}
	if err := checkName("consumerGroup", req.Group); err != nil {
		return nil, err
	}
	if isTrue(query.Get("wait")) {
		millis := leadingInt(query.Get("timeout"), int(d.PopTimeout/time.Millisecond))
		req.Wait = time.Duration(between(0, millis, int(maxWait/time.Millisecond))) * time.Millisecond
	}
	mode := query.Get("subscriptionMode")
	if mode == "" {
		mode = d.SubscriptionMode
	}
	from, err := subscription(mode, query.Get("subscriptionFrom"))
	if err != nil {
		return nil, err
	}
	req.Subscription = from
	return req, nil
}

// subscription applies the order of section 6.1. An instant that cannot be read
// is refused: to start at the first message instead would deliver what nobody
// asked for.
func subscription(mode, from string) (queue.Subscription, error) {
	switch {
	case strings.EqualFold(from, "now"):
		return queue.Subscription{Mode: queue.SubscribeNew}, nil
	case from != "":
		at, err := instant("subscriptionFrom", from, `"now" or `)
		return queue.Subscription{Mode: queue.SubscribeFrom, From: at}, err
	case mode == "new":
		return queue.Subscription{Mode: queue.SubscribeNew}, nil
	default:
		return queue.Subscription{Mode: queue.SubscribeAll}, nil
	}
}

// instantLayouts are the forms of a timestamp that clients send; one without a
// zone is UTC.
var instantLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07",
	"2006-01-02T15:04:05.999999999-0700", "2006-01-02 15:04:05.999999999-0700",
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
}

func parseInstant(s string) (time.Time, bool) {
	for _, layout := range instantLayouts {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			if t.IsZero() {
				t = t.Add(time.Microsecond) // the zero instant stands for none
			}
			year := t.UTC().Year()
			return t, 1 <= year && year <= 9999
		}
	}
	return time.Time{}, false
}

// instant reads a timestamp; or names what else the field may be, for the error.
func instant(field, s, or string) (time.Time, error) {
	if at, ok := parseInstant(s); ok {
		return at, nil
	}
	return time.Time{}, queue.Invalidf("%s is %q: it must be %sa timestamp like 2026-05-16T08:41:27.123Z (RFC 3339; without a zone it is UTC)",
		field, clip(s), or)
}

func isTrue(s string) bool { return s == "true" || s == "1" }

// leadingInt reads the integer s starts with, as the reference does.
func leadingInt(s string, otherwise int) int {
	s = strings.TrimSpace(s)
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && (s[end] == '-' || s[end] == '+')) {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return otherwise
	}
	return n
}

func between(low, n, high int) int { return max(low, min(n, high)) }

func appendDelivery(b []byte, d *queue.Delivery) []byte {
	size := 512
	for i := range d.Messages {
		size += 320 + len(d.Messages[i].Payload) + len(d.Messages[i].Partition.Name) + len(d.Group)
	}
	b = append(make([]byte, 0, size), b...)
	lease := []byte(`""`)
	if !d.LeaseID.IsZero() {
		lease = appendID(nil, d.LeaseID)
	}
	group := appendString(nil, d.Group)
	first := d.Messages[0].Partition
	b = append(b, `{"success":true,"queue":`...)
	b = appendString(b, d.Queue)
	b = append(b, `,"partition":`...)
	b = appendString(b, first.Name)
	b = append(b, `,"partitionId":`...)
	b = appendID(b, first.ID)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = append(b, `,"partitionsClaimed":`...)
	b = strconv.AppendInt(b, int64(d.Partitions), 10)
	b = append(b, `,"messages":[`...)
	for i := range d.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, &d.Messages[i], lease, group)
	}
	return append(b, `]}`...)
}

// appendMessage appends one message; attempt is ours, the rest the contract's.
func appendMessage(b []byte, m *queue.Message, lease, group []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendID(b, m.ID)
	b = append(b, `,"transactionId":`...)
	b = appendString(b, m.TransactionID)
	b = append(b, `,"traceId":`...)
	b = appendID(b, m.TraceID)
	b = append(b, `,"data":`...)
	b = append(b, m.Payload...)
	b = append(b, `,"producerSub":`...)
	if m.ProducerSub == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, m.ProducerSub)
	}
	b = append(b, `,"createdAt":"`...)
	b = m.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(b, `","partitionId":`...)
	b = appendID(b, m.Partition.ID)
	b = append(b, `,"partition":`...)
	b = appendString(b, m.Partition.Name)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(m.Attempt), 10)
	return append(b, '}')
}
