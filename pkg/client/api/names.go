package api

// The API reference says more of these texts than that they are strings.
type (
	// ID is a UUID in its text form.
	ID = string
	// Name is the name of a queue, partition, group, namespace or task: at most 255 bytes.
	Name = string
)
