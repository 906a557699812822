package listen

import (
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Channel is the NOTIFY channel. Channels belong to a database, so two
// installations on one server do not hear each other.
const Channel = "belfry"

// InboxChannel is the channel on which the trigger of belfry.inbox says that rows
// were committed. Its payload says nothing.
const InboxChannel = "belfry_inbox"

// Kind says what an entry tells.
type Kind string

// The kinds of entries.
const (
	// KindReady: a partition has, or will have, something poppable for a group.
	KindReady Kind = "ready"
	// KindCreated: queues, groups or partitions were made, changed or deleted; what
	// is remembered of them must be read again.
	KindCreated Kind = "born"
	// KindResync: everything may have changed. It includes KindBorn.
	KindResync Kind = "all"
)

// Entry is one hint.
type Entry struct {
	Kind Kind
	// Group and Partition are set with KindReady. Partition 0 stands for any
	// partition of the group's queue.
	Group, Partition int64
	// At is since when it is poppable, or when it will be, by the clock of the
	// database, to the microsecond. Zero is not known: look now.
	At time.Time
}

// Ready returns an entry of KindReady.
func Ready(group, partition int64, at time.Time) Entry {
	return Entry{Kind: KindReady, Group: group, Partition: partition, At: at}
}

// Created returns an entry of KindBorn.
func Created() Entry { return Entry{Kind: KindCreated} }

// Resync returns an entry of KindAll.
func Resync() Entry { return Entry{Kind: KindResync} }

// encodable says whether a decoder will accept the entry.
func (e Entry) encodable() bool {
	switch e.Kind {
	case KindCreated, KindResync:
		return true
	case KindReady:
		return e.Group > 0 && e.Partition >= 0
	default:
		return false
	}
}

// Message is one notification.
type Message struct {
	// Instance is who sent it; zero for a sender that is no instance, such as a
	// trigger or a person with psql.
	Instance queue.ID
	Entries  []Entry
	// Canary is the number of the sender's heartbeat; zero when there is none.
	Canary uint64
	// Goodbye says that the sender stops in order and will not be heard again.
	Goodbye bool
}

const (
	// version opens every payload. Another one is not understood.
	version = "1"
	// maxPayload is the most bytes of a payload; Postgres refuses 8000.
	maxPayload = 7899
	// maxEntry is more than the text of one ready entry can have.
	maxEntry = 64
)

// maxAt is the latest instant that is told; a later one is told as this one.
var maxAt = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Encode returns the payloads that together say what m says, each short enough
// for one notification; none when m says nothing. The text is
//
//	1;i=<instance>;c=<canary>;bye;born;all;r=<group>/<partition>@<at>,...
//
// with the parts that apply, in this order. at is in microseconds since 1970 by
// the clock of the database, rounded up so that nobody looks too early; 0: not known.
// Entries must be of a known kind with Group above 0 and Partition not negative;
// others are left out.
func Encode(m Message) []string {
	head := []byte(version + ";i=" + m.Instance.String())
	buf := append(make([]byte, 0, 256), head...)
	if m.Canary > 0 {
		buf = strconv.AppendUint(append(buf, ";c="...), m.Canary, 10)
	}
	if m.Goodbye {
		buf = append(buf, ";bye"...)
	}
	for _, kind := range []Kind{KindCreated, KindResync} {
		if m.has(kind) {
			buf = append(append(buf, ';'), kind...)
		}
	}
	var payloads []string
	separator := ";r="
	for _, e := range m.Entries {
		if e.Kind != KindReady || !e.encodable() {
			continue
		}
		if len(buf) > maxPayload-maxEntry {
			payloads = append(payloads, string(buf))
			buf, separator = append(buf[:0], head...), ";r="
		}
		buf = strconv.AppendInt(append(buf, separator...), e.Group, 10)
		buf = strconv.AppendInt(append(buf, '/'), e.Partition, 10)
		buf = strconv.AppendInt(append(buf, '@'), micros(e.At), 10)
		separator = ","
	}
	if len(buf) > len(head) {
		payloads = append(payloads, string(buf))
	}
	return payloads
}

func (m Message) has(kind Kind) bool {
	for _, e := range m.Entries {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// micros returns an instant as it is told: 0 for one that is zero or before 1970.
func micros(at time.Time) int64 {
	switch {
	case at.IsZero() || at.Unix() < 0:
		return 0
	case at.After(maxAt):
		return maxAt.UnixMicro()
	}
	return at.Add(time.Microsecond - 1).UnixMicro()
}
