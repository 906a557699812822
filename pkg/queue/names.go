package queue

import (
	"strings"
	"unicode/utf8"
)

// DefaultGroup is the consumer group of a request that names none ("queue mode"). It is stored like
// any other group.
const DefaultGroup = "__QUEUE_MODE__"

// DefaultPartition is the partition of a push that names none.
const DefaultPartition = "Default"

// Limits of names and of transaction ids. See docs/compatibility.md.
const (
	MaxNameBytes          = 255
	MaxTransactionIDRunes = 255
)

// CheckName refuses a text that cannot be the name of a queue, partition, group or tag. field names it in the error,
// which is CodeInvalid.
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
