package data

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxPart limits the size of a part of an answer. A larger payload is a part of its own. send writes
// each part as soon as it is encoded, so that the answer is not in memory twice. An answer of one
// part has a Content-Length.
const maxPart = 64 << 10

// send writes a delivery. It returns an error if the client certainly has not received
// the whole answer. It checks whether the client has disconnected before it writes the
// last byte:
//
//  1. Without the last byte, no client can parse the answer.
//  2. With the last byte, a client may read the answer and disconnect before send
//     returns. Then the lease must not be released.
func send(c echo.Context, d *queue.Delivery) error {
	r := c.Response()
	r.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	b, err := writeMessages(r, d)
	if err != nil {
		return err
	}
	b = append(b, `]}`...)
	if !r.Committed {
		r.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(b)))
	}
	last := len(b) - 1
	if _, err := r.Write(b[:last]); err != nil {
		return err
	}
	if err := c.Request().Context().Err(); err != nil {
		return err
	}
	if _, err := r.Write(b[last:]); err != nil {
		return err
	}
	return http.NewResponseController(r.Writer).Flush() // echo's own Flush returns no error
}

// writeMessages writes all parts of an answer except the last part. It returns the last part without the closing brackets.
func writeMessages(r *echo.Response, d *queue.Delivery) (last []byte, err error) {
	size := 512
	for i := range d.Messages {
		if size += d.Messages[i].AnswerSize() + len(d.Messages[i].Partition.Name) + len(d.Group); size > maxPart {
			size = maxPart
			break
		}
	}
	b := make([]byte, 0, size)
	lease := []byte(`""`)
	if !d.LeaseID.IsZero() {
		lease = wire.AppendID(nil, "", d.LeaseID)
	}
	group := wire.AppendString(nil, "", d.Group)
	b = appendHead(b, d, lease, group)
	for i := range d.Messages {
		m := &d.Messages[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIDs(b, m)
		if len(b)+len(m.Payload) > maxPart {
			if _, err := r.Write(b); err != nil {
				return nil, err
			}
			b = b[:0]
		}
		if len(m.Payload) < maxPart {
			b = append(b, m.Payload...)
		} else if _, err := r.Write(m.Payload); err != nil {
			return nil, err
		}
		b = appendRest(b, m, lease, group)
	}
	return b, nil
}

// appendHead appends the members before the messages. The arguments lease and group are JSON.
func appendHead(b []byte, d *queue.Delivery, lease, group []byte) []byte {
	first := d.Messages[0].Partition
	b = wire.AppendString(b, `{"success":true,"queue":`, d.Queue)
	b = wire.AppendString(b, `,"partition":`, first.Name)
	b = wire.AppendID(b, `,"partitionId":`, first.ID)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = wire.AppendInt(b, `,"partitionsClaimed":`, d.Partitions)
	return append(b, `,"messages":[`...)
}

// appendIDs appends the beginning of a message, up to its payload. Queen MQ has the same members of a
// message, except attempt and headers.
func appendIDs(b []byte, m *queue.Message) []byte {
	b = wire.AppendID(b, `{"id":`, m.ID)
	b = wire.AppendString(b, `,"transactionId":`, m.TransactionID)
	b = wire.AppendID(b, `,"traceId":`, m.TraceID)
	return append(b, `,"data":`...)
}

// appendRest appends the members of a message after its payload. The arguments lease and group are JSON.
func appendRest(b []byte, m *queue.Message, lease, group []byte) []byte {
	b = wire.AppendStringOrNull(b, `,"producerSub":`, m.ProducerSub)
	b = append(b, `,"createdAt":"`...)
	b = m.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = wire.AppendID(b, `","partitionId":`, m.Partition.ID)
	b = wire.AppendString(b, `,"partition":`, m.Partition.Name)
	b = append(b, `,"leaseId":`...)
	b = append(b, lease...)
	b = append(b, `,"consumerGroup":`...)
	b = append(b, group...)
	b = wire.AppendInt(b, `,"attempt":`, m.Attempt)
	if m.Headers != nil {
		b = append(append(b, `,"headers":`...), m.Headers...)
	}
	return append(b, '}')
}
