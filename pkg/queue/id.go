package queue

import (
	"fmt"

	"github.com/google/uuid"
)

// ID is a UUID: of a message, a partition on the wire, a lease, a trace. The
// zero ID means "none".
type ID [16]byte

// NewID returns a new UUIDv7: ids made one after the other in a process sort
// in that order.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID reads the usual text form of a UUID.
func ParseID(s string) (ID, error) {
	if len(s) != 36 {
		return ID{}, fmt.Errorf("%q is not a UUID", s)
	}
	id, err := uuid.Parse(s)
	if err != nil {
		return ID{}, fmt.Errorf("%q is not a UUID", s)
	}
	return ID(id), nil
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the usual text form, in lower case.
func (id ID) String() string { return uuid.UUID(id).String() }
