package api

// The API reference describes these types in more detail.
type (
	// ID is a UUID in its text form.
	ID = string
	// Name is the name of a queue, partition, group, namespace or task: at most 255 bytes.
	Name = string
	// Interval is the number of seconds between two instants. It can be negative, for example if the second instant has passed
	// or two clocks differ.
	Interval = float64
)
