package listen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// AwaitChannel is the channel on which belfry.await (migration 000030) says what a
// consumer in SQL waits for. Others do not hear it, so a server of an older version
// is not disturbed.
const AwaitChannel = "belfry_await"

// maxName is the most characters of a name: belfry.await allows as many bytes in the
// encoding of the database.
const maxName = 255

// DecodeSQLWaiter reads a payload of AwaitChannel: a JSON array of queue, group and
// partition or null. Anybody who may connect can notify, so everything is checked. It
// never panics, whatever the payload is.
func DecodeSQLWaiter(payload string) (queue.SQLWaiter, error) {
	w, err := decodeWish(payload)
	if err != nil {
		return queue.SQLWaiter{}, fmt.Errorf("reading the wish %.80q: %w", payload, err)
	}
	return w, nil
}

func decodeWish(payload string) (w queue.SQLWaiter, err error) {
	var names []*string
	decoder := json.NewDecoder(bytes.NewReader([]byte(payload)))
	if err := decoder.Decode(&names); err != nil {
		return w, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return w, errors.New("something follows the array")
	}
	if len(names) != 3 || names[0] == nil || names[1] == nil {
		return w, errors.New("it is not queue, group and partition")
	}
	for _, name := range names {
		switch {
		case name == nil:
		case utf8.RuneCountInString(*name) > maxName:
			return w, fmt.Errorf("a name has %d characters, the limit is %d", utf8.RuneCountInString(*name), maxName)
		case strings.ContainsRune(*name, 0):
			return w, errors.New("a name has a NUL, which Postgres has not")
		}
	}
	if *names[0] == "" || *names[1] == "" {
		return w, errors.New("a name is empty")
	}
	// As the function makes it: of the text, whatever is written there.
	sum := sha256.Sum256([]byte(payload))
	return queue.SQLWaiter{
		Queue: *names[0], Group: *names[1], Partition: names[2],
		Channel: "belfry_" + hex.EncodeToString(sum[:16]),
	}, nil
}
