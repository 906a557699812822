package wire

import (
	"context"
	"fmt"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The functions May… return CodeForbidden if the grants of the principal do not allow something. They
// look at names only. So the answer for a queue that exists and for one that does not is the same.

// MayRead allows to see a queue.
func MayRead(ctx context.Context, queueName string) error {
	return permit(identity.GrantsOf(ctx).MayRead(queueName), "read queue %q", queueName)
}

// MayPush allows to push to a queue.
func MayPush(ctx context.Context, queueName string) error {
	return permit(identity.GrantsOf(ctx).MayPush(queueName), "push to queue %q", queueName)
}

// MayConsume allows to consume a queue as a group.
func MayConsume(ctx context.Context, queueName, group string) error {
	return permit(identity.GrantsOf(ctx).MayConsume(queueName, group), "consume queue %q as group %q", queueName, group)
}

// MayAdminister allows to configure and delete a queue.
func MayAdminister(ctx context.Context, queueName string) error {
	return permit(identity.GrantsOf(ctx).MayAdminister(queueName), "administer queue %q", queueName)
}

func permit(allowed bool, action string, names ...any) error {
	if allowed {
		return nil
	}
	return &queue.Error{
		Code:    queue.CodeForbidden,
		Message: fmt.Sprintf("Insufficient permissions: the token has no grant to "+action, names...),
	}
}
