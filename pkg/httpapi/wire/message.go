package wire

import (
	"context"
	"net/http"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// MessageNotFound is the error text that clients of Queen MQ expect.
const MessageNotFound = "Message not found"

// MessagePath has the ids of a message in the path of a request.
type MessagePath struct {
	Partition                    queue.ID
	PartitionText, TransactionID string
}

// ReadMessagePath reads the path. If the partition is not a UUID, the error is
// CodeNotFound.
func ReadMessagePath(p *Params) (ref MessagePath, err error) {
	ref.PartitionText = p.PathName("partitionId")
	// A transaction id has at most 255 characters. It can have more bytes than a name.
	ref.TransactionID = p.PathText("transactionId")
	if p.Err != nil {
		return ref, p.Err
	}
	ref.Partition, err = ParsePartition(ref.PartitionText)
	return ref, err
}

// ParsePartition reads the id of a partition. If the text is not a UUID, the error is CodeNotFound.
func ParsePartition(text string) (queue.ID, error) {
	id, err := queue.ParseID(text)
	if err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: MessageNotFound}
	}
	return id, err
}

// FindPartition checks that the partition id exists and that allowed returns true for its queue. Otherwise it returns the
// error for a message that does not exist. Without grants it returns nil without a query.
func FindPartition(ctx context.Context, owners Owners, id queue.ID, allowed func(g *identity.Grants, queueName string) bool) error {
	grants := identity.GrantsOf(ctx)
	if grants == nil {
		return nil
	}
	queues, err := owners.QueuesOf(ctx, []queue.ID{id}, func(_ int, name string) bool { return allowed(grants, name) })
	if err != nil {
		return err
	}
	if name, exists := queues[id]; !exists || !allowed(grants, name) {
		return &queue.Error{Code: queue.CodeNotFound, Message: MessageNotFound}
	}
	return nil
}

// NotFound returns the body of an answer 404 with the member success, as in Queen MQ.
func NotFound(p *Params, err error) (any, error) {
	p.Status = http.StatusNotFound
	return api.Refused{Error: err.Error()}, nil
}
