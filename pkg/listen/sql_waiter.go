package listen

import (
	"crypto/sha256"
	"encoding/hex"
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

// maxName is the most characters of a name. belfry.await allows as many bytes in the
// encoding of the database.
const maxName = 255

// DecodeSQLWaiter reads a payload of AwaitChannel: a JSON array of queue, group, and
// partition or null. Every role that can connect can notify, so all of it is checked.
// It never panics, whatever the payload is.
func DecodeSQLWaiter(payload string) (queue.SQLWaiter, error) {
	w, err := decodeSQLWaiter(payload)
	if err != nil {
		return queue.SQLWaiter{}, fmt.Errorf("reading the SQL waiter %.80q: %w", payload, err)
	}
	return w, nil
}

func decodeSQLWaiter(payload string) (w queue.SQLWaiter, err error) {
	var names []*string
	if err := json.Unmarshal([]byte(payload), &names); err != nil {
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
	// belfry.await computes the channel from the payload text in the same way.
	sum := sha256.Sum256([]byte(payload))
	return queue.SQLWaiter{
		Queue: *names[0], Group: *names[1], Partition: names[2],
		Channel: "belfry_" + hex.EncodeToString(sum[:16]),
	}, nil
}
