package observe

import (
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// readable returns the patterns of the queues that the sender may read. Nil means every queue.
func readable(p *wire.Params) []string { return identity.GrantsOf(p.Ctx()).Readable() }

// MayReadNamed returns CodeForbidden if a filter names a queue that the sender may not read.
func MayReadNamed(p *wire.Params, queueName *string) error {
	if queueName == nil {
		return nil
	}
	return wire.MayRead(p.Ctx(), *queueName)
}
