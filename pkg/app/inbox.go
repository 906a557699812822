package app

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/httpapi"
)

// inboxState returns what the dispatcher status shows of the inbox.
func (p *parts) inboxState(ctx context.Context) (httpapi.InboxState, error) {
	found, err := p.sequencer.Counts(ctx)
	if err != nil {
		return httpapi.InboxState{}, err
	}
	holder, err := p.sequencer.Holder(ctx)
	return httpapi.InboxState{
		Waiting: found.Waiting, Rejected: found.Rejected, Oldest: found.Oldest, Leading: found.Leading, Holder: (*httpapi.InboxHolder)(holder),
	}, err
}
