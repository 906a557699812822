package listen

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

var errNumber = errors.New("it is not a number in canonical form")

// Decode reads a payload. It is strict: an error means that Encode of this version did
// not write the payload, so a hint may be missed. It never panics, whatever the payload
// is.
func Decode(payload string) (Message, error) {
	m, err := decode(payload)
	if err != nil {
		return Message{}, fmt.Errorf("reading the notification %.80q: %w", payload, err)
	}
	return m, nil
}

func decode(payload string) (m Message, err error) {
	if len(payload) > maxPayload {
		return m, fmt.Errorf("it has %d bytes, the limit is %d", len(payload), maxPayload)
	}
	parts := strings.Split(payload, ";")
	if parts[0] != version {
		return m, fmt.Errorf("its version is not %s", version)
	}
	parts = parts[1:]
	// next removes the next part and returns its value, if the part has that name.
	next := func(name string) (value string, ok bool) {
		if len(parts) == 0 {
			return "", false
		}
		if value, ok = strings.CutPrefix(parts[0], name); ok {
			parts = parts[1:]
		}
		return value, ok
	}
	instance, _ := next("i=")
	if m.Instance, err = queue.ParseID(instance); err != nil || m.Instance.String() != instance {
		return m, fmt.Errorf("its instance %q is not a UUID in lower case", instance)
	}
	if len(parts) == 0 {
		return m, errors.New("it has no parts after the instance")
	}
	if text, ok := next("c="); ok {
		if m.Canary, err = decodeCanary(text); err != nil {
			return m, err
		}
	}
	if len(parts) > 0 && parts[0] == "bye" {
		m.Goodbye, parts = true, parts[1:]
	}
	for _, kind := range []Kind{KindCreated, KindResync} {
		if len(parts) > 0 && parts[0] == string(kind) {
			m.Entries, parts = append(m.Entries, Entry{Kind: kind}), parts[1:]
		}
	}
	if list, ok := next("r="); ok {
		if m.Entries, err = appendReady(m.Entries, list); err != nil {
			return m, err
		}
	}
	if len(parts) > 0 {
		return m, fmt.Errorf("the part %.40q is unknown, doubled or out of order", parts[0])
	}
	return m, nil
}

func decodeCanary(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || text[0] == '0' || text[0] == '+' {
		return 0, fmt.Errorf("its canary %.40q: %w", text, errNumber)
	}
	return n, nil
}

func appendReady(entries []Entry, list string) ([]Entry, error) {
	for text := range strings.SplitSeq(list, ",") {
		e, err := decodeReady(text)
		if err != nil {
			return nil, fmt.Errorf("its entry %.40q: %w", text, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func decodeReady(text string) (e Entry, err error) {
	group, rest, ok1 := strings.Cut(text, "/")
	partition, at, ok2 := strings.Cut(rest, "@")
	if !ok1 || !ok2 {
		return e, errors.New("it is not group/partition@at")
	}
	e.Kind = KindReady
	if e.Group, err = decodeNumber(group); err != nil {
		return e, err
	}
	if e.Group == 0 {
		return e, errors.New("its group is 0")
	}
	if e.Partition, err = decodeNumber(partition); err != nil {
		return e, err
	}
	instant, err := decodeNumber(at)
	switch {
	case err != nil:
		return e, err
	case instant > maxAt.UnixMicro():
		return e, errors.New("its instant is beyond the year 9999")
	case instant > 0:
		e.At = time.UnixMicro(instant).UTC()
	}
	return e, nil
}

// decodeNumber reads a non-negative number as strconv.AppendInt writes it.
func decodeNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '-' || text[0] == '+' || text[0] == '0' && len(text) > 1 {
		return 0, errNumber
	}
	return n, nil
}
