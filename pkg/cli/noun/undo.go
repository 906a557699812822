package noun

import (
	"net/url"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

const undoColumns = `ACTION:undoAction QUEUE:queue PARTITION:partition GROUP:consumerGroup VALUES:values BACK:places.partitionsMovedBack
	FORWARD:places.partitionsMovedForward GONE:places.partitionsGone AGAIN:places.messagesDeliveredAgain SKIPPED:places.messagesSkipped`

func undoPath(in *verb.Input) string { return "/api/v1/audit/" + url.PathEscape(in.Args[0]) + "/undo" }

// undoVerb is the command "audit undo".
var undoVerb = &verb.Verb{
	Use: "undo ID", Short: "Undo a change of the audit", Change: true, Ask: "Undo the change {0}?", Would: "undo the change {0}",
	Long: `Put the old values of a change back: options of a queue, a pause or a resume, limits, or the positions of a seek. The column UNDOABLE of
"belfry audit" shows which changes can be undone. A change that was replaced by a later change is refused. --dry-run shows the
effect.`,
	Example: `  belfry audit undo 0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f --dry-run`,
	Preview: func(in *verb.Input) client.Request { return request.Get(undoPath(in), nil) }, PreviewColumns: undoColumns,
	Request: func(in *verb.Input) client.Request { return request.Post(undoPath(in), nil, nil) },
	Columns: undoColumns,
}
