package adminplane

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// messageNotFound is a text that clients of Queen MQ know.
const messageNotFound = "Message not found"

// messageRef is the message that a path names.
type messageRef struct {
	partition                    queue.ID
	partitionText, transactionID string
}

// readMessageRef reads the path. The error for a partition that is not a UUID is
// CodeNotFound.
func readMessageRef(c echo.Context) (ref messageRef, err error) {
	p := wire.Params{Context: c}
	ref.partitionText = p.PathName("partitionId")
	// A transaction id has at most 255 characters, which can be more bytes than a
	// name.
	ref.transactionID = p.PathText("transactionId")
	if p.Err != nil {
		return ref, p.Err
	}
	ref.partition, err = parsePartition(ref.partitionText)
	return ref, err
}

func parsePartition(text string) (queue.ID, error) {
	id, err := queue.ParseID(text)
	if err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: messageNotFound}
	}
	return id, err
}

// DeleteMessage serves DELETE /api/v1/messages/:partitionId/:transactionId. The
// answer for a message that does not exist is a 200 too, as in Queen MQ.
func (h *Handlers) DeleteMessage(c echo.Context) error {
	ref, err := readMessageRef(c)
	var existed bool
	if err == nil {
		existed, err = h.DeadLetters.Delete(c.Request().Context(), ref.partition, ref.transactionID)
	}
	if err != nil && queue.CodeOf(err) != queue.CodeNotFound {
		return err
	}
	text := messageNotFound
	if existed {
		text = "Message deleted successfully"
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Success       bool   `json:"success"`
		PartitionID   string `json:"partitionId"`
		TransactionID string `json:"transactionId"`
		Message       string `json:"message"`
	}{existed, ref.partitionText, ref.transactionID, text})
}

// movedMessageJSON is the answer to a message that became a dead letter, or that
// was redriven.
type movedMessageJSON struct {
	Success       bool    `json:"success"`
	PartitionID   string  `json:"partitionId"`
	TransactionID string  `json:"transactionId"`
	Group         *string `json:"consumerGroup"`
	DLQ           bool    `json:"dlq,omitempty"`
	Redriven      *int64  `json:"redriven,omitempty"`
}

// readGroup reads consumerGroup and error of an optional body. group is nil when
// the body names none.
func (h *Handlers) readGroup(c echo.Context) (group *string, reason string, err error) {
	err = h.Bodies.ReadOptionalObject(c, func(name string, value jsontext.Value) error {
		if value.Kind() == 'n' {
			return nil
		}
		switch name {
		case "consumerGroup":
			if err := nameMember("consumerGroup", value, &group); err != nil {
				return err
			}
			if *group == "" {
				group = nil
			}
		case "error":
			var ok bool
			if reason, ok = wire.Text(value); !ok {
				return queue.Invalidf("error must be a string, not %s", wire.Clip(string(value)))
			}
		}
		return nil
	})
	return group, wire.ReplaceNUL(reason), err
}

// DeadLetterMessage serves POST /api/v1/messages/:partitionId/:transactionId/dlq.
// The message becomes a dead letter for a group, also when a lease covers it.
func (h *Handlers) DeadLetterMessage(c echo.Context) error {
	ref, err := readMessageRef(c)
	if err != nil {
		return err
	}
	group, reason, err := h.readGroup(c)
	if err != nil {
		return err
	}
	hint := ""
	if group == nil {
		group = orNull(queue.NoGroup)
		hint = "; if a consumer group is to give the message up, name it in consumerGroup"
	}
	if reason == "" {
		reason = "Moved to the dead letter queue"
	}
	results, err := h.Acker.Ack(c.Request().Context(), []queue.AckItem{{
		TransactionID: ref.transactionID, PartitionID: ref.partitionText, Group: *group, Status: queue.AckDead, Error: reason,
	}})
	if err != nil {
		return err
	}
	if text := results[0].Error; !results[0].Success {
		if text != messageNotFound {
			text += hint
		}
		return &queue.Error{Code: queue.CodeNotFound, Message: text}
	}
	h.Meter.Acknowledged(results)
	return wire.AnswerJSON(c, http.StatusOK, movedMessageJSON{
		Success: true, PartitionID: ref.partitionText, TransactionID: ref.transactionID, Group: group, DLQ: true,
	})
}

// RetryMessage serves POST /api/v1/messages/:partitionId/:transactionId/retry. It
// redrives one message: for one group, or for all groups that have it as a dead
// letter.
func (h *Handlers) RetryMessage(c echo.Context) error {
	ref, err := readMessageRef(c)
	if err != nil {
		return err
	}
	group, _, err := h.readGroup(c)
	if err != nil {
		return err
	}
	n, err := h.DeadLetters.Retry(c.Request().Context(), ref.partition, ref.transactionID, group)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, movedMessageJSON{
		Success: true, PartitionID: ref.partitionText, TransactionID: ref.transactionID, Group: group, Redriven: &n,
	})
}
