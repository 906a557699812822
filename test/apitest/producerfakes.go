package apitest

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
)

// Producers replace the attachments of pkg/engine/attach and the rejected rows of pkg/engine/inbox.
type Producers struct {
	Attachments []attach.Attachment
	List        inbox.RejectedList
	More        bool

	// Verbs are the names of all calls. The other fields are the parameters of the last call.
	Verbs        []string
	Filter       inbox.RejectedFilter
	After, Limit int64
}

type attachmentsFake struct{ *Producers }

func (f attachmentsFake) List(_ context.Context, _ []string, after, limit int64) ([]attach.Attachment, error) {
	f.After, f.Limit = after, limit
	return f.Attachments, nil
}

type rejectionsFake struct{ *Producers }

func (f rejectionsFake) List(_ context.Context, filter inbox.RejectedFilter, before, limit int64) (inbox.RejectedList, error) {
	f.Filter, f.After, f.Limit = filter, before, limit
	return f.Producers.List, nil
}

func (f rejectionsFake) Retry(_ context.Context, filter inbox.RejectedFilter) (int64, bool, error) {
	f.Verbs, f.Filter = append(f.Verbs, "retry"), filter
	return 3, f.More, nil
}

func (f rejectionsFake) Discard(_ context.Context, filter inbox.RejectedFilter) (int64, bool, error) {
	f.Verbs, f.Filter = append(f.Verbs, "discard"), filter
	return 3, f.More, nil
}
