package page

import "github.com/belfry-mq/belfry/pkg/access/identity"

// Can says which actions a caller may take. A page offers no other action, and the API refuses it anyway.
type Can struct {
	// ReadOnly is dashboard.read_only: no action.
	ReadOnly bool
	// Principal is who asks. Nil: everybody may do everything.
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

// Write reports whether the caller may change anything at all.
func (c Can) Write() bool { return c.has(identity.ReadWrite) }

// Configure allows to change the options of a queue, and to pause it.
func (c Can) Configure(queue string) bool {
	return c.has(identity.ReadWrite) && c.grants().MayAdminister(queue)
}

// Push allows to push to a queue.
func (c Can) Push(queue string) bool { return c.has(identity.ReadWrite) && c.grants().MayPush(queue) }

// DeleteQueue allows to delete a queue, and to purge its dead letters.
func (c Can) DeleteQueue(queue string) bool {
	return c.has(identity.Admin) && c.grants().MayAdminister(queue)
}

// Consume allows to pause and to move a group, and to redrive its dead letters.
func (c Can) Consume(queue, group string) bool {
	return c.has(identity.ReadWrite) && c.grants().MayConsume(queue, group)
}

// DeleteGroup allows to delete a group in a queue.
func (c Can) DeleteGroup(queue, group string) bool {
	return c.has(identity.Admin) && c.grants().MayConsume(queue, group)
}

// SeeAll reports whether the caller sees figures that are of no queue.
func (c Can) SeeAll() bool { return c.grants() == nil }
