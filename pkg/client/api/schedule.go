package api

import (
	"encoding/json"
	"time"
)

// SetSchedule is the body of PUT /api/v1/schedules/:name. It has exactly one of Cron, Every and At.
type SetSchedule struct {
	Queue     Name `json:"queue"`              // The queue that gets the messages. The first message creates it.
	Partition Name `json:"partition,omitzero"` // The partition that gets the messages. The default is `Default`.
	// Five fields (minute, hour, day of the month, month, day of the week), or six with the second before them, or a name such as
	// `@daily`.
	Cron string `json:"cron,omitzero"`
	// The elapsed time between two instants, such as `10s`, `15m` or `1h30m`: whole seconds, up to 366 days. It counts from `starts`,
	// or from 1970.
	Every string `json:"every,omitzero"`
	// The only instant. It must be in the future.
	At time.Time `json:"at,omitzero"`
	// The IANA name of the time zone of `cron`. The default is `UTC`.
	Zone string `json:"zone,omitzero"`
	// The message. In its texts, `{{schedule}}` becomes the name and `{{scheduled_at}}` the instant. It has at most 64 KiB.
	Payload json.RawMessage `json:"payload"`
	// The headers of the message. Their values may have the same variables.
	Headers map[string]string `json:"headers,omitzero"`
	// No pop returns a message before this time has passed.
	DelaySeconds float64 `json:"delaySeconds,omitzero"`
	// No instant is before this one.
	Starts time.Time `json:"starts,omitzero"`
	// No instant is at or after this one.
	Ends time.Time `json:"ends,omitzero"`
	// Each instant is later by a part of this time, which depends only on the name and the instant. The form is that of `every`, up to
	// `24h`.
	Jitter string `json:"jitter,omitzero"`
	// What happens to instants that are missed, because no server ran or the schedule was paused. `skip`: they get no message. `one`:
	// one message for all of them. `all`: a message for each of the first 1,000. The default is `one`.
	Missed string `json:"missed,omitzero"`
	// A consumer group. An instant gets no message while this group has not finished the last message of the schedule. Without it,
	// every instant gets a message.
	OverlapGroup Name `json:"overlapGroup,omitzero"`
	// Pauses or resumes the schedule. Without it, a new schedule is not paused, and an old one stays as it is.
	Paused *bool `json:"paused,omitzero"`
}

// Schedule is a schedule with its state. The members of SetSchedule have the values in force, and are absent if they do not apply.
type Schedule struct {
	Name string `json:"name"`
	SetSchedule
	// The instants in words.
	Sentence string `json:"sentence"`
	// The reason of the pause.
	PauseReason *string `json:"pauseReason"`
	// The next instant, without jitter. null: the schedule is paused or has an error, no instant follows, or a server still computes it.
	NextAt *time.Time `json:"nextAt"`
	// The next ten instants, without jitter. Lists do not have this member.
	Next []time.Time `json:"next,omitzero"`
	// The last instant whose message was stored.
	LastAt *time.Time `json:"lastAt"`
	// The transaction id of the last message.
	LastTransactionID *string `json:"lastTransactionId"`
	// The last message. Absent if it is not in its partition, for example because it was deleted. Only answers to GET have this member.
	LastMessage *ScheduleMessage `json:"lastMessage,omitzero"`
	// Why the schedule has no instants until it is changed.
	Error *string `json:"error"`
	// The role of the database that made the schedule. It is the role of the server for requests.
	ScheduledBy *string   `json:"scheduledBy"`
	CreatedAt   time.Time `json:"createdAt"`
	ChangedAt   time.Time `json:"changedAt"`
}

// ScheduleMessage is the last message of a schedule.
type ScheduleMessage struct {
	PartitionID   ID     `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Status        string `json:"status"` // The status, as in lists of messages.
	// The group of `overlapGroup` has not finished the message. Until it does, no instant gets a message.
	Unfinished bool `json:"unfinished"`
}

// ScheduleSet is the answer to PUT /api/v1/schedules/:name.
type ScheduleSet struct {
	Success bool `json:"success"`
	Created bool `json:"created"` // The schedule is new. Otherwise it replaced an older one.
	DryRun  bool `json:"dryRun"`  // Nothing was stored.
	// The schedule after the request.
	Schedule Schedule `json:"schedule"`
}

// SchedulePage is a page of schedules.
type SchedulePage struct {
	Schedules  []Schedule `json:"schedules"`
	Pagination Page       `json:"pagination"`
}

// ScheduleInstants are the next instants of a schedule.
type ScheduleInstants struct {
	Name     string `json:"name"`
	Sentence string `json:"sentence"` // The instants in words.
	Zone     string `json:"zone"`
	// The next instants that are not handled, without jitter.
	Next []time.Time `json:"next"`
}

// ScheduleRun is the answer when a message of a schedule was stored at once.
type ScheduleRun struct {
	Success       bool   `json:"success"`
	Name          string `json:"name"`
	Queue         Name   `json:"queue"`
	TransactionID string `json:"transactionId"`
}

// SchedulePaused is the answer when a schedule was paused or resumed.
type SchedulePaused struct {
	Success bool   `json:"success"`
	Name    string `json:"name"`
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"` // The schedule was not paused before, or was paused before a resume.
}

// DeletedSchedule is the answer of DELETE /api/v1/schedules/:name.
type DeletedSchedule struct {
	Deleted bool   `json:"deleted"`
	Name    string `json:"name"`
}
