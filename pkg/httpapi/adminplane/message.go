package adminplane

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
	"github.com/go-json-experiment/json/jsontext"
)

type messageJSON struct {
	listedMessageJSON
	Payload      jsontext.Value `json:"payload"`
	PayloadError string         `json:"payloadError,omitempty"`
	Encrypted    bool           `json:"isEncrypted"`
	Error        *string        `json:"errorMessage"`
	RetryCount   int            `json:"retryCount"`
	QueueConfig  struct {
		LeaseTime  int64 `json:"leaseTime"`
		RetryLimit int64 `json:"retryLimit"`
		RetryDelay int64 `json:"retryDelay"`
		TTL        int64 `json:"ttl"`
		Priority   int64 `json:"priority"`
	} `json:"queueConfig"`
	Mode struct {
		modeJSON
		ConsumedBy int64 `json:"consumedByGroups"`
	} `json:"mode"`
	Groups []readerJSON `json:"consumerGroups"`
}

type readerJSON struct {
	Name        string    `json:"name"`
	Consumed    bool      `json:"consumed"`
	LeasedUntil time.Time `json:"leaseExpiresAt"`
}

// ShowMessage serves GET /api/v1/messages/:partitionId/:transactionId.
func (h *Handlers) ShowMessage(p *wire.Params) (any, error) {
	ref, err := readMessageRef(p)
	if err != nil {
		return nil, err
	}
	m, err := h.DeadLetters.Message(p.Ctx(), ref.partition, ref.transactionID)
	out := messageJSON{
		listedMessageJSON: listedMessageJSON{
			messageRefJSON: toMessageRefJSON(m.ID, ref.transactionID, ref.partition, m.Queue, m.Partition),
			Namespace:      m.Namespace, Task: m.Task, TraceID: m.TraceID, ProducerSub: orNull(m.ProducerSub),
			QueuePriority: m.Priority, CreatedAt: m.CreatedAt,
		},
		Payload: m.Payload, PayloadError: m.PayloadError, Encrypted: m.Encrypted,
	}
	out.QueueConfig.LeaseTime, out.QueueConfig.RetryLimit, out.QueueConfig.RetryDelay = m.LeaseTime, m.RetryLimit, m.RetryDelay
	out.QueueConfig.TTL, out.QueueConfig.Priority = m.TTL, m.Priority
	out.addReaders(m.Groups)
	return out, err
}

// addReaders adds the progress of all readers: the consumer groups, and the reader
// without a group.
func (m *messageJSON) addReaders(readers []deadletter.GroupState) {
	var ungrouped *deadletter.GroupState
	var failed time.Time
	for i := range readers {
		r := &readers[i]
		m.Groups = append(m.Groups, readerJSON{Name: r.Group, Consumed: r.Consumed, LeasedUntil: r.LeasedUntil})
		if r.Group == queue.NoGroup {
			ungrouped = r
		} else {
			m.BusStatus.TotalGroups++
			if r.Consumed {
				m.BusStatus.ConsumedBy++
			}
		}
		if r.LeasedUntil.After(m.LeaseExpiresAt) {
			m.LeaseExpiresAt = r.LeasedUntil
		}
		if r.Dead && r.FailedAt.After(failed) {
			failed = r.FailedAt
			m.Error, m.RetryCount = &r.Error, r.Failures
		}
	}
	m.Mode.modeJSON = toModeJSON(stats.Mode{QueueMode: ungrouped != nil, Groups: m.BusStatus.TotalGroups})
	m.Mode.ConsumedBy = m.BusStatus.ConsumedBy
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
