package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
)

type messageJSON struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	QueuePath     string          `json:"queuePath"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	Namespace     string          `json:"namespace"`
	Task          string          `json:"task"`
	Status        string          `json:"status"`
	QueueStatus   *string         `json:"queueStatus"`
	BusStatus     busJSON         `json:"busStatus"`
	TraceID       *string         `json:"traceId"`
	ProducerSub   *string         `json:"producerSub"`
	QueuePriority int64           `json:"queuePriority"`
	CreatedAt     string          `json:"createdAt"`
	LeasedUntil   *string         `json:"leaseExpiresAt"`
	Payload       json.RawMessage `json:"payload"`
	PayloadError  string          `json:"payloadError,omitempty"`
	Encrypted     bool            `json:"isEncrypted"`
	Error         *string         `json:"errorMessage"`
	RetryCount    int             `json:"retryCount"`
	QueueConfig   struct {
		LeaseTime  int64 `json:"leaseTime"`
		RetryLimit int64 `json:"retryLimit"`
		RetryDelay int64 `json:"retryDelay"`
		TTL        int64 `json:"ttl"`
		Priority   int64 `json:"priority"`
	} `json:"queueConfig"`
	Mode struct {
		HasQueueMode bool   `json:"hasQueueMode"`
		BusGroups    int    `json:"busGroupsCount"`
		Type         string `json:"type"`
		ConsumedBy   int    `json:"consumedByGroups"`
	} `json:"mode"`
	Groups []readerJSON `json:"consumerGroups"`
}

type busJSON struct {
	ConsumedBy  int `json:"consumedBy"`
	TotalGroups int `json:"totalGroups"`
}

type readerJSON struct {
	Name        string  `json:"name"`
	Consumed    bool    `json:"consumed"`
	LeasedUntil *string `json:"leaseExpiresAt"`
}

// showMessage serves GET /api/v1/messages/:partitionId/:transactionId (section
// 7.2).
func (s *Server) showMessage(c echo.Context) error {
	partition, _, transaction, err := messagePath(c)
	if err != nil {
		return err
	}
	m, err := s.deps.Letters.Message(c.Request().Context(), partition, transaction)
	if err != nil {
		return err
	}
	out := messageJSON{
		ID: m.ID.String(), TransactionID: transaction, PartitionID: partition.String(), QueuePath: m.Queue + "/" + m.Partition,
		Queue: m.Queue, Partition: m.Partition, Namespace: m.Namespace, Task: m.Task, ProducerSub: textOrNull(m.ProducerSub),
		QueuePriority: m.Priority, CreatedAt: formatMillis(m.CreatedAt), Payload: payloadOrNull(m.Payload),
		PayloadError: m.PayloadError, Encrypted: m.Encrypted, Groups: []readerJSON{},
	}
	if !m.TraceID.IsZero() {
		out.TraceID = textOrNull(m.TraceID.String())
	}
	out.QueueConfig.LeaseTime, out.QueueConfig.RetryLimit, out.QueueConfig.RetryDelay = m.LeaseTime, m.RetryLimit, m.RetryDelay
	out.QueueConfig.TTL, out.QueueConfig.Priority = m.TTL, m.Priority
	out.read(m.Groups)
	return answerValue(c, http.StatusOK, out)
}

// read tells where the readers stand, in the words of the contract.
func (m *messageJSON) read(readers []deadletter.GroupState) {
	var alone *deadletter.GroupState // the reader without a group
	var failed, leased time.Time
	for i := range readers {
		r := &readers[i]
		m.Groups = append(m.Groups, readerJSON{Name: r.Group, Consumed: r.Consumed, LeasedUntil: millisOrNull(r.LeasedUntil)})
		if r.Group == queue.NoGroup {
			alone = r
		} else {
			m.BusStatus.TotalGroups++
			if r.Consumed {
				m.BusStatus.ConsumedBy++
			}
		}
		if r.LeasedUntil.After(leased) {
			leased = r.LeasedUntil
		}
		if r.Dead && r.FailedAt.After(failed) {
			failed = r.FailedAt
			m.Error, m.RetryCount = &r.Error, r.Failures
		}
	}
	m.LeasedUntil = millisOrNull(leased)
	m.Mode.HasQueueMode, m.Mode.BusGroups, m.Mode.ConsumedBy = alone != nil, m.BusStatus.TotalGroups, m.BusStatus.ConsumedBy
	switch {
	case alone != nil && m.BusStatus.TotalGroups > 0:
		m.Mode.Type = "hybrid"
	case alone != nil:
		m.Mode.Type = "queue"
	case m.BusStatus.TotalGroups > 0:
		m.Mode.Type = "bus"
	default:
		m.Mode.Type = "none"
	}
	m.Status = "pending"
	if alone != nil {
		switch {
		case alone.Consumed:
			m.Status = "completed"
		case !alone.LeasedUntil.IsZero():
			m.Status = "processing"
		}
		status := m.Status
		m.QueueStatus = &status
	} else if m.BusStatus.TotalGroups > 0 && m.BusStatus.ConsumedBy == m.BusStatus.TotalGroups {
		m.Status = "completed"
	}
	if !failed.IsZero() {
		m.Status = "dead_letter"
	}
}

// deleteMessage serves DELETE /api/v1/messages/:partitionId/:transactionId: 200
// also when there is none, as the contract has it.
func (s *Server) deleteMessage(c echo.Context) error {
	partition, partitionText, transaction, err := messagePath(c)
	var existed bool
	if err == nil {
		existed, err = s.deps.Letters.Delete(c.Request().Context(), partition, transaction)
	}
	if err != nil && queue.CodeOf(err) != queue.CodeNotFound {
		return err
	}
	told := messageNotFound
	if existed {
		told = "Message deleted successfully"
	}
	return answerValue(c, http.StatusOK, struct {
		Success       bool   `json:"success"`
		PartitionID   string `json:"partitionId"`
		TransactionID string `json:"transactionId"`
		Message       string `json:"message"`
	}{existed, partitionText, transaction, told})
}

type parkedJSON struct {
	Success       bool    `json:"success"`
	PartitionID   string  `json:"partitionId"`
	TransactionID string  `json:"transactionId"`
	Group         *string `json:"consumerGroup"`
	DLQ           *bool   `json:"dlq,omitempty"`
	Redriven      *int64  `json:"redriven,omitempty"`
}

// bodyOf reads consumerGroup and error of an optional body.
func (s *Server) bodyOf(c echo.Context) (group *string, reason string, err error) {
	body, err := s.readOptionalBody(c)
	if err != nil || body == nil {
		return nil, "", err
	}
	err = object(body, func(name string, value jsontext.Value) error {
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
			if reason, ok = text(value); !ok {
				return queue.Invalidf("error must be a string, not %s", clip(string(value)))
			}
		}
		return nil
	})
	return group, withoutNUL(reason), err
}

// parkMessage serves POST /api/v1/messages/:partitionId/:transactionId/dlq: it
// dead-letters a message for a group, whoever holds it.
func (s *Server) parkMessage(c echo.Context) error {
	_, partition, transaction, err := messagePath(c)
	if err != nil {
		return err
	}
	group, reason, err := s.bodyOf(c)
	if err != nil {
		return err
	}
	hint := ""
	if group == nil {
		none := queue.NoGroup
		group = &none
		hint = "; if a consumer group is to give the message up, name it in consumerGroup"
	}
	if reason == "" {
		reason = "Moved to the dead letter queue"
	}
	results, err := s.deps.Verbs.Ack(c.Request().Context(), []queue.AckItem{{
		TransactionID: transaction, PartitionID: partition, Group: *group, Status: queue.AckDead, Error: reason,
	}})
	if err != nil {
		return err
	}
	if why := results[0].Error; !results[0].Success {
		if why != messageNotFound {
			why += hint
		}
		return &queue.Error{Code: queue.CodeNotFound, Message: why}
	}
	s.deps.Metrics.acknowledged(results)
	dead := true
	return answerValue(c, http.StatusOK, parkedJSON{Success: true, PartitionID: partition, TransactionID: transaction, Group: group, DLQ: &dead})
}

// retryMessage serves POST /api/v1/messages/:partitionId/:transactionId/retry: it
// redrives one message, for a group or for all that gave it up.
func (s *Server) retryMessage(c echo.Context) error {
	partition, partitionText, transaction, err := messagePath(c)
	if err != nil {
		return err
	}
	group, _, err := s.bodyOf(c)
	if err != nil {
		return err
	}
	n, err := s.deps.Letters.Retry(c.Request().Context(), partition, transaction, group)
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, parkedJSON{
		Success: true, PartitionID: partitionText, TransactionID: transaction, Group: group, Redriven: &n,
	})
}
