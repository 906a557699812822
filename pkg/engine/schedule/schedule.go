package schedule

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// What happens to instants that are missed, because no instance ran, the schedule was paused, or its transaction was open for
// long.
const (
	// MissedSkip stores no message for an instant that is more than ten seconds late.
	MissedSkip = "skip"
	// MissedOne stores one message for all missed instants, with the last of them.
	MissedOne = "one"
	// MissedAll stores a message for each of the first 1,000 missed instants. With Definition.OverlapGroup it is MissedOne.
	MissedAll = "all"
)

// ErrNoSchedule is the error for a schedule that does not exist.
var ErrNoSchedule = &queue.Error{Code: queue.CodeNotFound, Message: "Schedule not found"}

// Definition is what a caller says of a schedule.
type Definition struct {
	// Name has 1 to 200 bytes.
	Name string
	// Queue and Partition are the target. The first message creates them. The default of Partition is "Default".
	Queue, Partition string
	// Spec describes the instants. Every is whole seconds, up to 366 days.
	Spec when.Spec
	// Payload is JSON of at most 64 KiB. In its texts and in Headers, {{schedule}} and {{scheduled_at}} are replaced.
	Payload []byte
	Headers queue.Headers
	// Delay is how long a message is invisible after it was stored.
	Delay time.Duration
	// Jitter is the most by which an instant is late. The delay of an instant depends only on the name and the instant.
	Jitter time.Duration
	// Missed is MissedSkip, MissedOne or MissedAll. The default is MissedOne.
	Missed string
	// OverlapGroup is a consumer group of the queue. An instant gets no message while the group has not finished the last
	// message of the schedule. "" allows overlaps.
	OverlapGroup string
	// Pause pauses or resumes the schedule. With nil it stays as it is.
	Pause *bool
}

// Schedule is a schedule with its state. Fields that do not apply are empty.
type Schedule struct {
	Definition
	Paused      bool
	PauseReason string
	// NextAt is the next instant, without jitter. It is zero if none follows, and for a moment after a change.
	NextAt time.Time
	// LastAt is the last instant whose message was stored, without the messages of RunNow.
	LastAt time.Time
	// LastTransactionID is the transaction id of the last message, also of RunNow.
	LastTransactionID string
	// Error says why the server cannot compute an instant.
	Error string
	// ScheduledBy is the role of the database that made the schedule.
	ScheduledBy          string
	CreatedAt, ChangedAt time.Time
	// ReadAt is the clock of the database when the schedule was read.
	ReadAt time.Time

	handledTo time.Time
}

// Next returns the next n instants that are not handled yet, without jitter, at most 1,000. It returns fewer if fewer follow. If
// the schedule is paused, it returns instants after ReadAt. Errors: CodeInvalid.
func (s *Schedule) Next(n int) ([]time.Time, error) {
	after := s.handledTo
	if s.Paused && s.ReadAt.After(after) {
		after = s.ReadAt
	}
	return Instants(s.Spec, after, n)
}

// scan reads a schedule.
func scan(row pgx.CollectableRow) (s Schedule, err error) {
	var every, jitter, delay int64
	var payload string
	var headers *string
	err = row.Scan(&s.Name, &s.Queue, &s.Partition, (*zeronull.Text)(&s.Spec.Cron), (*zeronull.Int8)(&every),
		(*zeronull.Timestamptz)(&s.Spec.At), &s.Spec.Zone, (*zeronull.Timestamptz)(&s.Spec.Starts), (*zeronull.Timestamptz)(&s.Spec.Ends),
		&jitter, &s.Missed, (*zeronull.Text)(&s.OverlapGroup), &payload, &headers, &delay, &s.Paused, (*zeronull.Text)(&s.PauseReason),
		(*zeronull.Timestamptz)(&s.NextAt), (*zeronull.Timestamptz)(&s.LastAt), (*zeronull.Text)(&s.LastTransactionID),
		(*zeronull.Text)(&s.Error), (*zeronull.Text)(&s.ScheduledBy), &s.CreatedAt, &s.ChangedAt, &s.handledTo, &s.ReadAt)
	s.Spec.Every = time.Duration(every) * time.Second
	s.Jitter, s.Delay = time.Duration(jitter)*time.Microsecond, time.Duration(delay)*time.Microsecond
	s.Payload = []byte(payload)
	if headers != nil {
		s.Headers = queue.Headers(*headers)
	}
	return s, err
}
