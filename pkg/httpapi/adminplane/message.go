package adminplane

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

type messageJSON struct {
	listedMessageJSON
	Payload      json.RawMessage `json:"payload"`
	PayloadError string          `json:"payloadError,omitempty"`
	Encrypted    bool            `json:"isEncrypted"`
	Error        *string         `json:"errorMessage"`
	RetryCount   int             `json:"retryCount"`
	QueueConfig  struct {
		LeaseTime  int64 `json:"leaseTime"`
		RetryLimit int64 `json:"retryLimit"`
		RetryDelay int64 `json:"retryDelay"`
		TTL        int64 `json:"ttl"`
		Priority   int64 `json:"priority"`
	} `json:"queueConfig"`
	Mode   messageModeJSON `json:"mode"`
	Groups []readerJSON    `json:"consumerGroups"`
}

type messageModeJSON struct {
	modeJSON
	ConsumedBy int64 `json:"consumedByGroups"`
}

type readerJSON struct {
	Name        string  `json:"name"`
	Consumed    bool    `json:"consumed"`
	LeasedUntil *string `json:"leaseExpiresAt"`
}

// ShowMessage serves GET /api/v1/messages/:partitionId/:transactionId.
func (h *Handlers) ShowMessage(c echo.Context) error {
	ref, err := readMessageRef(c)
	if err != nil {
		return err
	}
	m, err := h.DeadLetters.Message(c.Request().Context(), ref.partition, ref.transactionID)
	if err != nil {
		return err
	}
	out := messageJSON{
		listedMessageJSON: listedMessageJSON{
			messageRefJSON: toMessageRefJSON(m.ID, ref.transactionID, ref.partition, m.Queue, m.Partition),
			Namespace:      m.Namespace, Task: m.Task, TraceID: idOrNull(m.TraceID), ProducerSub: orNull(m.ProducerSub),
			QueuePriority: m.Priority, CreatedAt: wire.FormatMillis(m.CreatedAt),
		},
		Payload: payloadOrNull(m.Payload), PayloadError: m.PayloadError, Encrypted: m.Encrypted, Groups: []readerJSON{},
	}
	out.QueueConfig.LeaseTime, out.QueueConfig.RetryLimit, out.QueueConfig.RetryDelay = m.LeaseTime, m.RetryLimit, m.RetryDelay
	out.QueueConfig.TTL, out.QueueConfig.Priority = m.TTL, m.Priority
	out.addReaders(m.Groups)
	return wire.AnswerJSON(c, http.StatusOK, out)
}

// addReaders adds the progress of all readers: the consumer groups, and the reader
// without a group.
func (m *messageJSON) addReaders(readers []deadletter.GroupState) {
	var ungrouped *deadletter.GroupState
	var failed, leased time.Time
	for i := range readers {
		r := &readers[i]
		m.Groups = append(m.Groups, readerJSON{Name: r.Group, Consumed: r.Consumed, LeasedUntil: millisOrNull(r.LeasedUntil)})
		if r.Group == queue.NoGroup {
			ungrouped = r
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
	m.LeaseExpiresAt = millisOrNull(leased)
	m.Mode = messageModeJSON{toModeJSON(stats.Mode{QueueMode: ungrouped != nil, Groups: m.BusStatus.TotalGroups}), m.BusStatus.ConsumedBy}
	m.Status = stats.StatusPending
	if ungrouped != nil {
		switch {
		case ungrouped.Consumed:
			m.Status = stats.StatusCompleted
		case !ungrouped.LeasedUntil.IsZero():
			m.Status = stats.StatusProcessing
		}
		m.QueueStatus = orNull(m.Status)
	} else if m.BusStatus.TotalGroups > 0 && m.BusStatus.ConsumedBy == m.BusStatus.TotalGroups {
		m.Status = stats.StatusCompleted
	}
	if !failed.IsZero() {
		m.Status = stats.StatusDeadLetter
	}
}
