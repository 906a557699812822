package api

// The API reference describes these types in more detail.
type (
	// ID is a UUID in its text form.
	ID = string
	// Name is the name of a queue, partition, group, namespace or task: at most 255 bytes.
	Name = string
	// Interval is the number of seconds between two instants. It is negative if the second instant is past. Clocks that differ
	// can make it negative too.
	Interval = float64
)
