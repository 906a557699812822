package listen

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Decode reads a payload. It is strict: an error means that Encode of this version did not write
// the payload, so a hint may be missed. It never panics, whatever the payload is.
func Decode(payload string) (Notification, error) {
	m, err := decode(payload)
	if err == nil && !slices.Equal(Encode(m), []string{payload}) {
		err = errors.New("it is not in the form in which it is sent")
	}
	if err != nil {
		return Notification{}, fmt.Errorf("reading the notification %.80q: %w", payload, err)
	}
	return m, nil
}

// decode also accepts some payloads that Encode does not write. For them the Notification has
// another payload.
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
		var numbers [3]int64
		for i, digits := range []string{owner, partition, at} {
			if numbers[i], err = strconv.ParseInt(digits, 10, 64); err != nil {
				return err
			}
		}
		var instant time.Time
		if numbers[2] != 0 {
			instant = time.UnixMicro(numbers[2]).UTC()
		}
		each(numbers[0], numbers[1], instant)
	}
	return nil
}
