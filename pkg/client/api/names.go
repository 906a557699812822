package api

// The API reference says more of these than what they are in Go.
type (
	// ID is a UUID in its text form.
	ID = string
	// Name is the name of a queue, partition, group, namespace or task: at most 255 bytes.
	Name = string
	// Interval is the number of seconds between two instants. It can be negative, because one of them is past or clocks differ.
	Interval = float64
)
