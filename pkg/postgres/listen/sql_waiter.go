package listen

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// AwaitChannel is the NOTIFY channel on which belfry.await registers a SQL waiter. It is
// separate from Channel, so that a server of an older version ignores it.
const AwaitChannel = "belfry_await"

// maxName is the maximum number of characters of a name. belfry.await allows the same number of bytes in the encoding of the
// database.
const maxName = 255

// readSQLWaiter reads a payload of AwaitChannel that the session pid sent. Every role that can connect can notify, so
// a payload that belfry.await did not make in that session is an error.
func (k *channelKey) readSQLWaiter(payload string, pid uint32) (queue.SQLWaiter, error) {
	request, err := k.openWaiter(payload, pid)
	if err != nil {
		return queue.SQLWaiter{}, fmt.Errorf("reading a SQL waiter of session %d: %w", pid, err)
	}
	w, err := decodeSQLWaiter(request)
	if err != nil {
		return queue.SQLWaiter{}, fmt.Errorf("reading the SQL waiter %.80q: %w", request, err)
	}
	w.Channel = k.waiterChannel(request)
	return w, nil
}

// decodeSQLWaiter reads a request of belfry.await: a JSON array of queue, group, and partition or null.
func decodeSQLWaiter(request []byte) (w queue.SQLWaiter, err error) {
	var names []*string
	if err := json.Unmarshal(request, &names); err != nil {
		return w, err
	}
	if len(names) != 3 || names[0] == nil || names[1] == nil {
		return w, errors.New("want a JSON array of queue, group and partition")
	}
	for _, name := range names {
		switch {
		case name == nil:
		case utf8.RuneCountInString(*name) > maxName:
			return w, fmt.Errorf("a name has %d characters, the limit is %d", utf8.RuneCountInString(*name), maxName)
		case strings.ContainsRune(*name, 0):
			return w, errors.New("a name contains NUL")
		}
	}
	if *names[0] == "" || *names[1] == "" {
		return w, errors.New("a name is empty")
	}
	return queue.SQLWaiter{Queue: *names[0], Group: *names[1], Partition: names[2]}, nil
}
