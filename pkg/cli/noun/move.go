package noun

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/instant"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

// moveVerb is the command that changes the instant at which a message becomes visible.
var moveVerb = &verb.Verb{
	Use: "move PARTITION_ID TRANSACTION_ID", Short: "Deliver a message at another time", Change: true,
	Would: "move the message {1}", Named: theMessage,
	Long: `Change the time before which no consumer receives a message, for example when an appointment moves. The message keeps its place:
the later messages of its partition wait for it. A message that a consumer holds or has finished cannot be moved. To find the
partition id, use "belfry messages list --queue QUEUE --partition PARTITION --transaction-id TRANSACTION_ID".`,
	Example: `  belfry messages move 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --to 15m`,
	Flags: func(f *pflag.FlagSet) {
		f.String("to", "", "the time: RFC 3339, a duration from now such as 15m or 2d, or now")
	},
	Request: func(in *verb.Input) client.Request {
		body, err := moveBody(in.Flag("to"))
		if err != nil && in.Err == nil {
			in.Err = err
		}
		return client.Request{Method: http.MethodPatch, Path: messagePath(in), Body: body}
	},
	Columns: "TRANSACTION-ID:transactionId VISIBLE-AT:visibleAt BEFORE:visibleAtBefore",
}

// moveBody returns the body of the request for a time in the flag --to.
func moveBody(to string) (map[string]any, error) {
	if to == "now" {
		return map[string]any{"visibleAt": nil}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, to); err == nil {
		return map[string]any{"visibleAt": at.UTC().Format(time.RFC3339Nano)}, nil
	}
	delay, err := instant.Duration(to)
	if err != nil || delay < 0 {
		return nil, session.UsageError(fmt.Sprintf("--to is %q: it must be an instant such as 2026-05-16T08:41:27Z, a duration from now such as 15m or 2d, or now", to))
	}
	return map[string]any{"delaySeconds": delay.Seconds()}, nil
}
