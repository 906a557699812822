package page

import "github.com/belfry-mq/belfry/pkg/access/identity"

// Can says which actions a caller may perform. A page shows only these actions. The API refuses all others.
type Can struct {
	// ReadOnly is dashboard.read_only. If it is true, the caller may perform no action.
	ReadOnly bool
	// Principal is the caller. It is nil if the server requires no tokens. Then every caller may perform every action.
	Principal *identity.Principal
}

func (c Can) has(role identity.Role) bool {
	return !c.ReadOnly && (c.Principal == nil || c.Principal.Role >= role)
}

func (c Can) grants() *identity.Grants {
	if c.Principal == nil {
		return nil
	}
	return c.Principal.Grants
}

// Write reports whether the role of the caller allows any change.
func (c Can) Write() bool { return c.has(identity.ReadWrite) }

// Configure reports whether the caller may change the options and the schedules of a queue, and pause the queue.
func (c Can) Configure(queue string) bool {
	return c.has(identity.ReadWrite) && c.grants().MayAdminister(queue)
}

// Push reports whether the caller may push to a queue.
func (c Can) Push(queue string) bool { return c.has(identity.ReadWrite) && c.grants().MayPush(queue) }

// DeleteQueue reports whether the caller may delete a queue, and purge its dead letters.
func (c Can) DeleteQueue(queue string) bool {
	return c.has(identity.Admin) && c.grants().MayAdminister(queue)
}

// Consume reports whether the caller may pause and seek a group, and redrive its dead letters.
func (c Can) Consume(queue, group string) bool {
	return c.has(identity.ReadWrite) && c.grants().MayConsume(queue, group)
}

// DeleteGroup reports whether the caller may delete a group in a queue.
func (c Can) DeleteGroup(queue, group string) bool {
	return c.has(identity.Admin) && c.grants().MayConsume(queue, group)
}

// SeeAll reports whether the caller may see figures of all queues and of the server.
func (c Can) SeeAll() bool { return c.grants() == nil }
