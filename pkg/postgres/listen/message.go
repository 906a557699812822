package listen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Channel is the NOTIFY channel between instances. Channels belong to a database, so two
// installations on one Postgres server do not hear each other.
const Channel = "belfry"

// InboxChannel is the NOTIFY channel on which the trigger of belfry.inbox reports committed rows. Its payload has no meaning.
const InboxChannel = "belfry_inbox"

// TokensChannel is the NOTIFY channel of `belfry token revoke`. Its payload has no meaning.
const TokensChannel = "belfry_tokens"

// SettingsChannel is the NOTIFY channel of changes of belfry.setting. Its payload has no meaning.
const SettingsChannel = "belfry_settings"

// SchedulesChannel is the NOTIFY channel on which the trigger of belfry.schedule reports changed schedules. Its payload has no meaning.
const SchedulesChannel = "belfry_schedules"

// LiveChannel is the NOTIFY channel on which instances send each other events while somebody watches the events. pkg/insight/live
// defines its payloads.
const LiveChannel = "belfry_live"

// Notification carries hints, a canary or a goodbye to the other instances.
type Notification struct {
	// Instance is the sender. It is zero if the sender is not an instance: a trigger, or
	// a person with psql.
	Instance queue.ID
	// CatalogChanged: queues, groups or partitions were created, changed or deleted. Cached descriptions of them must be read
	// again. The notification has no names.
	CatalogChanged bool
	// Resync: everything may have changed. It includes CatalogChanged.
	Resync bool
	// Ready are partitions that are poppable for a group. In is not sent. At is sent in microseconds. A zero At means: look now.
	Ready []queue.Ready
	// Partitions are partitions that became poppable for several groups of their queue.
	Partitions []ReadyPartition
	// Canary is the number of the sender's canary. Zero: none.
	Canary uint64
	// Goodbye: the sender stops and sends no further notification.
	Goodbye bool
}

// ReadyPartition is a partition that became poppable for groups of its queue. The receiver finds out which of its groups read the
// queue. At is the earliest instant, as in Notification.Ready.
type ReadyPartition struct {
	Queue, Partition int64
	At               time.Time
}

// hints returns how many hints m has.
func (m *Notification) hints() int {
	n := len(m.Ready) + len(m.Partitions)
	for _, hint := range []bool{m.CatalogChanged, m.Resync} {
		if hint {
			n++
		}
	}
	return n
}

const (
	// version is the first part of every payload. Decode rejects other versions.
	version = "1"
	// maxPayload is the maximum size of a payload in bytes. Postgres refuses 8000 bytes.
	maxPayload = 7899
	// maxEntry is more bytes than one ready entry needs.
	maxEntry = 64
)

// maxAt is the latest instant that is sent. A later instant is sent as maxAt.
var maxAt = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Encode returns m as payloads, each short enough for one notification. If m is empty, Encode returns no payload. A payload has
// the form
//
//	1;i=<instance>;c=<canary>;bye;born;all;r=<group>/<partition>@<at>,...;p=<queue>/<partition>@<at>,...
//
// with only the parts that apply, in this order. "born" is CatalogChanged, "all" is Resync, "r" is Ready and "p" is Partitions.
// at is in microseconds since 1970 by the clock of the database, rounded up so that no instance looks too early. 0: unknown.
// The partition is -1 for queue.Room.
// Encode omits partitions that are not encodable.
func Encode(m Notification) []string {
	head := []byte(version + ";i=" + m.Instance.String())
	buf := append(make([]byte, 0, 256), head...)
	if m.Canary > 0 {
		buf = strconv.AppendUint(append(buf, ";c="...), m.Canary, 10)
	}
	if m.Goodbye {
		buf = append(buf, ";bye"...)
	}
	if m.CatalogChanged {
		buf = append(buf, ";born"...)
	}
	if m.Resync {
		buf = append(buf, ";all"...)
	}
	var payloads []string
	separator := ""
	add := func(part string, owner, partition int64, at time.Time) {
		if len(buf) > maxPayload-maxEntry {
			payloads = append(payloads, string(buf))
			buf, separator = append(buf[:0], head...), part
		}
		buf = strconv.AppendInt(append(buf, separator...), owner, 10)
		buf = strconv.AppendInt(append(buf, '/'), partition, 10)
		buf = strconv.AppendInt(append(buf, '@'), micros(at), 10)
		separator = ","
	}
	separator = ";r="
	for _, r := range m.Ready {
		if encodable(r) {
			add(";r=", r.Group, r.Partition, r.At)
		}
	}
	separator = ";p="
	for _, p := range m.Partitions {
		if p.encodable() {
			add(";p=", p.Queue, p.Partition, p.At)
		}
	}
	if len(buf) > len(head) {
		payloads = append(payloads, string(buf))
	}
	return payloads
}

// encodable reports whether a decoder accepts the partition: a group above 0, and queue.Room or a
// partition that is not negative.
func encodable(r queue.Ready) bool { return r.Group > 0 && r.Partition >= queue.Room }

// encodable reports whether a decoder accepts the partition: a queue and a partition above 0.
func (p ReadyPartition) encodable() bool { return p.Queue > 0 && p.Partition > 0 }

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

// Decode reads a payload. It is strict: an error means that Encode of this version did not write the payload, so a hint may be
// missed. No payload makes Decode panic.
func Decode(payload string) (Notification, error) {
	m, err := decode(payload)
	if err == nil && !slices.Equal(Encode(m), []string{payload}) {
		err = errors.New("it is not in the form that Encode writes")
	}
	if err != nil {
		return Notification{}, fmt.Errorf("reading the notification %.80q: %w", payload, err)
	}
	return m, nil
}

// decode also accepts some payloads that Encode does not write. If the result of such a payload is encoded, the payload differs.
func decode(payload string) (m Notification, err error) {
	if len(payload) > maxPayload {
		return m, fmt.Errorf("it has %d bytes, the limit is %d", len(payload), maxPayload)
	}
	parts := strings.Split(payload, ";")
	if parts[0] != version {
		return m, fmt.Errorf("its version is not %s", version)
	}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "i":
			m.Instance, err = queue.ParseID(value)
		case "c":
			m.Canary, err = strconv.ParseUint(value, 10, 64)
		case "bye":
			m.Goodbye = true
		case "born":
			m.CatalogChanged = true
		case "all":
			m.Resync = true
		case "r":
			m.Ready, err = decodeReady(value)
		case "p":
			m.Partitions, err = decodePartitions(value)
		default:
			err = errors.New("it is unknown")
		}
		if err != nil {
			return m, fmt.Errorf("its part %.40q: %w", part, err)
		}
	}
	return m, nil
}

func decodeReady(list string) (ready []queue.Ready, err error) {
	err = decodeEntries(list, func(group, partition int64, at time.Time) {
		ready = append(ready, queue.Ready{Group: group, Partition: partition, At: at})
	})
	return ready, err
}

func decodePartitions(list string) (ready []ReadyPartition, err error) {
	err = decodeEntries(list, func(queueKey, partition int64, at time.Time) {
		ready = append(ready, ReadyPartition{Queue: queueKey, Partition: partition, At: at})
	})
	return ready, err
}

// decodeEntries reads entries of the form owner/partition@at. The owner is a group or a queue.
func decodeEntries(list string, each func(owner, partition int64, at time.Time)) (err error) {
	for text := range strings.SplitSeq(list, ",") {
		owner, rest, ok1 := strings.Cut(text, "/")
		partition, at, ok2 := strings.Cut(rest, "@")
		if !ok1 || !ok2 {
			return fmt.Errorf("%.40q is not of the form id/partition@at", text)
		}
		var values [3]int64
		for i, digits := range []string{owner, partition, at} {
			if values[i], err = strconv.ParseInt(digits, 10, 64); err != nil {
				return err
			}
		}
		var instant time.Time
		if values[2] != 0 {
			instant = time.UnixMicro(values[2]).UTC()
		}
		each(values[0], values[1], instant)
	}
	return nil
}

const (
	// maxPending is the maximum number of ready entries that wait to be sent. A resync replaces a larger number of entries. This
	// loses no hint, because the other instances then look at everything.
	maxPending = 100_000
	// maxPayloads is the maximum number of payloads of one statement. A larger set becomes one resync.
	maxPayloads = 64
)

// groupPartition is the group and the partition of a ready entry.
type groupPartition struct{ group, partition int64 }

// pendingNotifications is the set of entries to send. The zero value is empty. It is not
// safe for concurrent use.
type pendingNotifications struct {
	ready           map[groupPartition]time.Time // the earliest instant; zero is now
	partitions      map[int64]ReadyPartition     // ready for several groups, by partition
	created, resync bool
	canary          uint64 // the latest
	goodbye         bool
}

func (n *pendingNotifications) empty() bool {
	return len(n.ready)+len(n.partitions) == 0 && !n.created && !n.resync && n.canary == 0 && !n.goodbye
}

// add adds a partition of one group. A partition that cannot be encoded becomes a resync, so that its hint is not lost.
func (n *pendingNotifications) add(r queue.Ready) {
	switch {
	case n.resync:
	case !encodable(r):
		n.resyncOnly()
	default:
		n.addReady(groupPartition{r.Group, r.Partition}, r.At)
	}
}

// addPartition adds a partition that is ready for several groups.
func (n *pendingNotifications) addPartition(p ReadyPartition) {
	switch known, ok := n.partitions[p.Partition]; {
	case n.resync:
	case !p.encodable(), ok && known.Queue != p.Queue: // another queue: the database was replaced
		n.resyncOnly()
	case !ok || p.At.Before(known.At):
		if n.partitions == nil {
			n.partitions = make(map[int64]ReadyPartition)
		}
		n.partitions[p.Partition] = p
		n.limit()
	}
}

// addCreated adds a hint that something was created.
func (n *pendingNotifications) addCreated() { n.created = !n.resync }

func (n *pendingNotifications) addReady(p groupPartition, at time.Time) {
	if n.ready == nil {
		n.ready = make(map[groupPartition]time.Time)
	}
	// The zero time means now and is before every other time.
	if known, ok := n.ready[p]; ok && !at.Before(known) {
		return
	}
	n.ready[p] = at
	n.limit()
}

// limit replaces too many entries by one resync.
func (n *pendingNotifications) limit() {
	if len(n.ready)+len(n.partitions) > maxPending {
		n.resyncOnly()
	}
}

// resyncOnly replaces all entries by one resync.
func (n *pendingNotifications) resyncOnly() {
	n.resync, n.created, n.ready, n.partitions = true, false, nil, nil
}

// merge adds the contents of another set.
func (n *pendingNotifications) merge(other *pendingNotifications) {
	n.canary = max(n.canary, other.canary)
	n.goodbye = n.goodbye || other.goodbye
	switch {
	case n.resync:
	case other.resync:
		n.resyncOnly()
	default:
		n.created = n.created || other.created
		for p, at := range other.ready {
			if n.resync {
				return
			}
			n.addReady(p, at)
		}
		for _, p := range other.partitions {
			n.addPartition(p)
		}
	}
}

// payloads returns the payloads of one statement that sends the set, and the number of their hints.
func (n *pendingNotifications) payloads(instance queue.ID) (payloads []string, hints int) {
	message := Notification{Instance: instance, Canary: n.canary, Goodbye: n.goodbye, CatalogChanged: n.created, Resync: n.resync}
	for p, at := range n.ready {
		message.Ready = append(message.Ready, queue.Ready{Group: p.group, Partition: p.partition, At: at})
	}
	message.Partitions = slices.Collect(maps.Values(n.partitions))
	if payloads = Encode(message); len(payloads) > maxPayloads {
		message.CatalogChanged, message.Resync, message.Ready, message.Partitions = false, true, nil, nil
		payloads = Encode(message)
	}
	return payloads, message.hints()
}
