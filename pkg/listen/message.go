package listen

import (
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Channel is the NOTIFY channel between instances. Channels belong to a database, so two
// installations on one Postgres server do not hear each other.
const Channel = "belfry"

// InboxChannel is the NOTIFY channel of the trigger of belfry.inbox: rows were committed.
// Its payload has no meaning.
const InboxChannel = "belfry_inbox"

// Kind is the kind of an entry. Its text is part of the payload.
type Kind string

// The kinds of entries.
const (
	// KindReady: a partition is poppable for a group, now or later.
	KindReady Kind = "ready"
	// KindCreated: queues, groups or partitions were created, changed or deleted. Cached
	// descriptions of them must be read again.
	KindCreated Kind = "born"
	// KindResync: everything may have changed. It includes KindCreated.
	KindResync Kind = "all"
)

// Entry is one hint.
type Entry struct {
	Kind Kind
	// Group and Partition are set with KindReady. Partition 0 stands for any
	// partition of the group's queue.
	Group, Partition int64
	// At is the instant from which the partition is poppable, by the clock of the
	// database, in microseconds. Zero: unknown, look now.
	At time.Time
}

// Ready returns an entry of KindReady.
func Ready(group, partition int64, at time.Time) Entry {
	return Entry{Kind: KindReady, Group: group, Partition: partition, At: at}
}

// Created returns an entry of KindCreated.
func Created() Entry { return Entry{Kind: KindCreated} }

// Resync returns an entry of KindResync.
func Resync() Entry { return Entry{Kind: KindResync} }

// encodable reports whether a decoder accepts the entry.
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
	// Instance is the sender. It is zero if the sender is not an instance: a trigger, or
	// a person with psql.
	Instance queue.ID
	Entries  []Entry
	// Canary is the number of the sender's canary. Zero: none.
	Canary uint64
	// Goodbye: the sender stops and sends no further notification.
	Goodbye bool
}

const (
	// version is the first part of every payload. Decode rejects other versions.
	version = "1"
	// maxPayload is the most bytes of a payload. Postgres refuses 8000.
	maxPayload = 7899
	// maxEntry is more bytes than one ready entry needs.
	maxEntry = 64
)

// maxAt is the latest instant that is sent. A later instant is sent as maxAt.
var maxAt = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Encode returns m as payloads, each short enough for one notification. It returns none
// if m is empty. The text is
//
//	1;i=<instance>;c=<canary>;bye;born;all;r=<group>/<partition>@<at>,...
//
// with the parts that apply, in this order. "born" is KindCreated and "all" is
// KindResync. at is in microseconds since 1970 by the clock of the database, rounded up
// so that no instance looks too early. 0: unknown. Encode omits entries of an unknown
// kind, with Group 0 or less, or with a negative Partition.
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

// micros returns an instant as it is sent. The zero time and times before 1970 are 0.
func micros(at time.Time) int64 {
	switch {
	case at.IsZero() || at.Unix() < 0:
		return 0
	case at.After(maxAt):
		return maxAt.UnixMicro()
	}
	return at.Add(time.Microsecond - 1).UnixMicro()
}
