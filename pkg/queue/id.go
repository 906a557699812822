package queue

import (
	"fmt"

	"github.com/google/uuid"
)

// ID is the UUID of a message, a partition on the wire, a lease or a trace. The
// zero ID means "none".
type ID [16]byte

// NewID returns a new UUIDv7. The ids of one process sort in the order in which
// they are made.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID reads a UUID in its 36-character text form, in either case. Any other
// form is an error.
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
