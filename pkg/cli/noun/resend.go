package noun

import (
	"encoding/json"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

// resendVerb is the command that sends a message again with changes. With dead, it also deletes the dead letters of the
// message.
func resendVerb(dead bool) *verb.Verb {
	v := &verb.Verb{
		Use: "resend PARTITION_ID TRANSACTION_ID", Short: "Send a message again with changes", Change: true,
		Would: "send the message {1} again", Named: theMessage,
		Long: `Push a new message with the payload of --payload, and mark the old message as sent again. Without a flag, the payload, the
queue and the partition stay the same. If you repeat the command, give --new-transaction-id with the same value. Then the
server sends the message once.`,
		Example: `  belfry messages resend 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --payload order.json`,
		Flags: func(f *pflag.FlagSet) {
			f.String("payload", "", "a file with the new payload as JSON; - is standard input")
			f.String("queue", "", "push to this queue")
			f.String("partition", "", "push to this partition")
			f.String("new-transaction-id", "", "the transaction id of the new message; without this flag the server makes one")
			f.String("group", "", "delete only the dead letter of this consumer group")
			if !dead {
				f.Bool("remove", false, "delete the dead letters of the old message")
			}
		},
		Request: func(in *verb.Input) client.Request {
			body := bodyOf(in.Query("queue", "partition", "new-transaction-id=transactionId", "group=consumerGroup"))
			if dead || in.Flag("remove") == "true" {
				body["remove"] = true
			}
			if file := in.Flag("payload"); file != "" && in.Err == nil {
				text, err := in.Input(file)
				if err == nil && !json.Valid(text) {
					err = session.UsageError("the payload in " + file + " is not JSON: mend it, or put quotes around a text")
				}
				body["payload"], in.Err = json.RawMessage(text), err
			}
			return request.Post(messagePath(in)+"/resend", nil, body)
		},
		Columns: "QUEUE:queue PARTITION:partition TRANSACTION-ID:transactionId ID:id REMOVED:removed",
	}
	if dead {
		v.Short = "Send the message of a dead letter again with changes, and delete the dead letter"
		v.Ask = "Send the message {1} again and delete its dead letters?"
		v.Example = `  belfry dlq resend 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --payload order.json --group billing`
	}
	return v
}
