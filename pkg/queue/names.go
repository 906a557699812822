package queue

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// DefaultGroup is the consumer group of a request without a group ("queue mode"). It is stored like any other group.
const DefaultGroup = "__QUEUE_MODE__"

// DefaultPartition is the partition of a push without a partition.
const DefaultPartition = "Default"

// Limits of names and of transaction ids. See docs/compatibility.md.
const (
	MaxNameBytes          = 255
	MaxTransactionIDRunes = 255
)

// CheckName refuses a text that cannot be the name of a queue, partition, group or tag. The error is CodeInvalid and begins with
// field.
func CheckName(field, name string) error {
	switch {
	case !utf8.ValidString(name):
		return Invalidf("%s is not UTF-8", field)
	case len(name) > MaxNameBytes:
		return Invalidf("%s is %d bytes long: at most %d are allowed", field, len(name), MaxNameBytes)
	case strings.ContainsRune(name, 0):
		return Invalidf("%s contains a NUL character: remove it", field)
	case name == "." || name == "..":
		return Invalidf("%s is %q, which clients remove from the path of a request: choose another name", field, name)
	default:
		return nil
	}
}

// ID is the UUID of a message, a partition on the wire, a lease or a trace. The
// zero ID means "none".
type ID [16]byte

// NewID returns a new UUIDv7. The ids of one process sort in the order in which
// they are made.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID reads a UUID in its 36-character text form, in upper or lower case. Any other form is an error.
func ParseID(s string) (ID, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return ID{}, fmt.Errorf("%q is not a UUID", s)
	}
	return ID(id), nil
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the 36-character text form in lower case.
func (id ID) String() string { return uuid.UUID(id).String() }

// RawIDs converts ids to the type that the driver encodes in binary.
func RawIDs(ids []ID) [][16]byte {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}
