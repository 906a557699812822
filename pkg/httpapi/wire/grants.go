package wire

import (
	"context"
	"fmt"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The functions May… return CodeForbidden if the grants of the principal do not allow an action. They
// check only names. So the answer does not reveal whether a queue exists.

// MayRead returns an error if the grants do not allow reading a queue.
func MayRead(ctx context.Context, queueName string) error {
	return permit(identity.GrantsOf(ctx).MayRead(queueName), "read", "read queue %q", queueName)
}

// MayPush returns an error if the grants do not allow pushes to a queue.
func MayPush(ctx context.Context, queueName string) error {
	return permit(identity.GrantsOf(ctx).MayPush(queueName), "push", "push to queue %q", queueName)
}

// MayConsume returns an error if the grants do not allow consuming a queue as a group.
func MayConsume(ctx context.Context, queueName, group string) error {
	return permit(identity.GrantsOf(ctx).MayConsume(queueName, group), "consume", "consume queue %q as group %q", queueName, group)
}

// MayAdminister returns an error if the grants do not allow configuring and deleting a queue.
func MayAdminister(ctx context.Context, queueName string) error {
	return permit(identity.GrantsOf(ctx).MayAdminister(queueName), "admin", "administer queue %q", queueName)
}

// permit returns an error that names the list of the claim belfry which could allow an action.
func permit(allowed bool, list, action string, names ...any) error {
	if allowed {
		return nil
	}
	return &queue.Error{
		Code:    queue.CodeForbidden,
		Message: fmt.Sprintf("Insufficient permissions: the token has no grant to "+action, names...) + "; the list " + list + " of its claim belfry does not have it",
	}
}
