package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/instant"
	"github.com/belfry-mq/belfry/pkg/cli/payload"
	"github.com/belfry-mq/belfry/pkg/cli/pusher"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/client"
)

// maxLine is the maximum length of a line of NDJSON in bytes.
const maxLine = 64 << 20

const pushedColumns = "STATUS:status QUEUE:queueName TRANSACTION-ID:transaction_id MESSAGE-ID:message_id"

const pushedCounts = "QUEUED:queued DUPLICATE:duplicate BUFFERED:buffered"

// pushOptions are the flags of push.
type pushOptions struct {
	file, partition, partitionKey, tenant, transactionID, traceID, key string
	headers                                                            []string
	batch                                                              int
	delay                                                              string
}

func newPush() *cobra.Command {
	var o pushOptions
	cmd := &cobra.Command{
		Use:   "push QUEUE [JSON]",
		Short: "Push one message, or one message per line of a file or of standard input",
		Long: `Push one message with the argument as its payload, or one message per line of --file or standard input (NDJSON). The
server stores messages of one partition in the order of the lines. --partition-key is a JSONPath that selects the
partition in the payload of each message. --transaction-key selects the transaction id. With --transaction-key you can
repeat an interrupted push: the server does not store a message twice.`,
		Example: `  belfry push orders '{"id": 1}'
  belfry push orders --partition customer-7 < orders.ndjson
  belfry push orders --file orders.ndjson --partition-key '$.customer' --transaction-key '$.id'`,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
		RunE: session.RunPatient(o.run),
	}
	session.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with one JSON value per line; - is standard input")
	f.StringVar(&o.partition, "partition", "", "the partition (default: Default)")
	f.StringVar(&o.partitionKey, "partition-key", "", "JSONPath of the partition name in the payload")
	f.StringVar(&o.tenant, "tenant", "", "tenant of the partitions that the push creates")
	f.StringVar(&o.transactionID, "transaction-id", "", "transaction id of a single message; a repeated push stores nothing")
	f.StringVar(&o.key, "transaction-key", "", "JSONPath of the transaction id in the payload")
	f.StringVar(&o.traceID, "trace-id", "", "trace id, a UUID")
	f.StringArrayVar(&o.headers, "header", nil, "header NAME=VALUE of each message; may be repeated")
	f.StringVar(&o.delay, "delay", "", "delay of the delivery, such as 15m or 2d")
	f.IntVar(&o.batch, "batch", 500, "messages per request, up to 10000")
	cmd.MarkFlagsMutuallyExclusive("partition", "partition-key")
	cmd.MarkFlagsMutuallyExclusive("transaction-id", "transaction-key")
	return cmd
}

func (o *pushOptions) run(s *session.Session, args []string) error {
	if o.batch < 1 {
		return session.UsageError("--batch must be at least 1")
	}
	build, err := o.builder(args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		if o.file != "" {
			return session.UsageError("give a JSON argument or --file, not both")
		}
		item, err := build([]byte(args[1]))
		if err != nil {
			return session.UsageError("the payload " + err.Error())
		}
		return pushOne(s, item)
	}
	if o.transactionID != "" {
		return session.UsageError("--transaction-id is for a single message: use --transaction-key")
	}
	in := s.Cmd.InOrStdin()
	switch {
	case o.file != "" && o.file != "-":
		f, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // the file is only read
		in = f
	case o.file == "" && session.IsTerminal(in):
		return session.UsageError("give a JSON argument or --file, or send lines on standard input")
	}
	session.NoteInput(s.Cmd, in)
	return pushLines(s, in, build, o.batch)
}

// builder returns a function that makes an item from a payload.
func (o *pushOptions) builder(queueName string) (func([]byte) (client.Item, error), error) {
	partition, err := payload.NewKey("--partition-key", o.partitionKey)
	if err != nil {
		return nil, session.UsageError(err.Error())
	}
	transaction, err := payload.NewKey("--transaction-key", o.key)
	if err != nil {
		return nil, session.UsageError(err.Error())
	}
	template := client.Item{Queue: queueName, Partition: o.partition, Tenant: o.tenant, TransactionID: o.transactionID, TraceID: o.traceID}
	for _, text := range o.headers {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return nil, session.UsageError(fmt.Sprintf("--header is %q: write NAME=VALUE", text))
		}
		if template.Headers == nil {
			template.Headers = map[string]string{}
		}
		template.Headers[name] = value
	}
	if o.delay != "" {
		delay, err := instant.Duration(o.delay)
		if err != nil {
			return nil, session.UsageError(fmt.Sprintf("--delay is %q: it must be a duration such as 15m or 2d", o.delay))
		}
		template.DelaySeconds = delay.Seconds()
	}
	return func(text []byte) (client.Item, error) {
		item := template
		if !json.Valid(text) {
			return item, errors.New("is not JSON")
		}
		item.Payload = json.RawMessage(text)
		var err error
		if partition != nil {
			item.Partition, err = partition.Of(text)
		}
		if err == nil && transaction != nil {
			item.TransactionID, err = transaction.Of(text)
		}
		return item, err
	}, nil
}

func pushOne(s *session.Session, item client.Item) error {
	stored, err := s.Client.Push(s.Cmd.Context(), item)
	if err != nil {
		return err
	}
	return s.Value(stored, "", pushedColumns)
}

// pushLines pushes each line until the input ends or the user interrupts the command. In both cases it pushes all
// lines that were read. After an error, the server may have stored the messages before the failed line.
func pushLines(s *session.Session, in io.Reader, build func([]byte) (client.Item, error), batch int) error {
	shown := s.NewProgress("messages")
	defer shown.End()
	lines := payload.ReadLines(in, maxLine)
	p := pusher.New(s.Cmd.Context(), s.Client, batch, func(sum int64) { shown.Show(sum, lines.Share(), time.Now()) })
	err := p.Run(s.Cmd.Context(), lines, build)
	counts := p.Counts()
	if err != nil {
		return fmt.Errorf("%w (at least %d messages are stored; push them again with --transaction-key to store each once)", err, counts.Sum())
	}
	shown.End()
	return s.Value(counts, "", pushedCounts)
}
