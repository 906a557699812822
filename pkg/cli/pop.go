package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/client"
)

const poppedColumns = `PARTITION:partition TRANSACTION-ID:transactionId AGE:createdAt:age ATTEMPT:attempt DATA:data LEASE-ID:leaseId:wide
	PARTITION-ID:partitionId:wide ID:id:wide`

// popFlags adds the flags of pop and tail.
func popFlags(cmd *cobra.Command, o *client.PopOptions) {
	session.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Group, "group", "", "the consumer group; the reader without a group if none is named")
	f.StringVar(&o.Partition, "partition", "", "only this partition")
	f.StringVar(&o.SubscriptionMode, "start", "", "where a new group starts: all or new")
	f.IntVar(&o.Batch, "batch", 1, "most messages of a request, at most 10000")
	f.IntVar(&o.Partitions, "partitions", 1, "most partitions of a request, at most 200")
}

func newPop() *cobra.Command {
	var o client.PopOptions
	cmd := &cobra.Command{
		Use:   "pop [QUEUE]",
		Short: "Receive messages",
		Long: `Receive messages of a queue, or of any queue of --namespace and --task. Each has a lease: acknowledge it with "belfry ack", or
it is delivered again when the lease ends. A table is followed by the line to copy for each partition, on standard error.
--auto-ack acknowledges at once. The exit code is 4 if there is no message.`,
		Example: `  belfry pop orders --auto-ack
  belfry pop orders --group billing --batch 10 --wait 30s -o ndjson`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
		RunE: session.Run(func(s *session.Session, args []string) error {
			if (len(args) == 1) == (o.Namespace != "" || o.Task != "") {
				return session.UsageError("name a queue, or else --namespace, --task or both")
			}
			if len(args) == 1 {
				o.Queue = args[0]
			}
			if o.Wait < 0 || o.Wait > maxWait {
				return session.UsageError("--wait must be between 0s and " + maxWait.String())
			}
			if err := checkStart(o.SubscriptionMode); err != nil {
				return err
			}
			if o.Wait > 0 {
				s.Note("waiting at most " + o.Wait.String() + " for a message, or until Ctrl-C")
			}
			messages, err := s.Client.Pop(s.Cmd.Context(), o)
			if err != nil {
				return err
			}
			if len(messages) == 0 {
				return session.ErrEmpty
			}
			if err := s.Value(messages, "", poppedColumns); err != nil || o.AutoAck || !s.IsTable() {
				return err
			}
			for i, m := range messages {
				if i+1 == len(messages) || messages[i+1].PartitionID != m.PartitionID {
					s.Note(ackLine(m, o.Group))
				}
			}
			return nil
		}),
	}
	popFlags(cmd, &o)
	cmd.Flags().StringVar(&o.Namespace, "namespace", "", "any queue of this namespace")
	cmd.Flags().StringVar(&o.Task, "task", "", "any queue of this task")
	cmd.Flags().DurationVar(&o.Wait, "wait", 0, "how long to wait for a message, at most 10m")
	cmd.Flags().BoolVar(&o.AutoAck, "auto-ack", false, "acknowledge the messages at once")
	return cmd
}

// ackLine is the command that acknowledges a message, and those before it in its partition.
func ackLine(m *client.Raw, group string) string {
	line := "belfry ack " + quoted(m.PartitionID) + " " + quoted(m.TransactionID)
	if group != "" {
		line += " --group " + quoted(group)
	}
	return line + " --lease-id " + quoted(m.LeaseID)
}

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.,:/@%+=][A-Za-z0-9_.,:/@%+=-]*$`)

// quoted returns a word for a shell.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// maxWait is the longest wait that a server accepts.
const maxWait = 10 * time.Minute

func checkStart(mode string) error {
	if mode != "" && mode != "all" && mode != "new" {
		return session.UsageError(fmt.Sprintf("--start is %q: it must be all or new", mode))
	}
	return nil
}

// tailWait is how long one request of tail waits.
const tailWait = 30 * time.Second

func newTail() *cobra.Command {
	var o client.PopOptions
	var follow bool
	cmd := &cobra.Command{
		Use:   "tail QUEUE",
		Short: "Print messages as they come, and acknowledge them",
		Long: `Print the payloads of messages, one in a line, and acknowledge each after it was printed. With -f wait for more until
Ctrl-C. A message that was printed and not acknowledged is printed again the next time.

Name a group of your own, so that nobody loses messages. A new group starts with new messages, unless --start all is named.`,
		Example: `  belfry tail -f orders --group debug-anna`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
		RunE: session.RunPatient(func(s *session.Session, args []string) error {
			if o.Group == "" {
				return session.UsageError("--group is missing: name a group of your own, so that nobody loses messages")
			}
			o.Queue = args[0]
			if err := checkStart(o.SubscriptionMode); err != nil {
				return err
			}
			if follow {
				o.Wait = tailWait
				s.Note("waiting for messages until Ctrl-C")
			}
			return tail(s, o)
		}),
	}
	popFlags(cmd, &o)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more messages until Ctrl-C")
	cmd.Flags().Lookup("start").DefValue = "new"
	o.SubscriptionMode = "new"
	return cmd
}

func tail(s *session.Session, o client.PopOptions) error {
	ctx := s.Cmd.Context()
	for ctx.Err() == nil {
		messages, err := s.Client.Pop(ctx, o)
		if err != nil && ctx.Err() != nil {
			return nil // Ctrl-C
		}
		if err != nil {
			return err
		}
		if len(messages) == 0 && o.Wait == 0 {
			return nil
		}
		if err := printAndAck(ctx, s, messages); err != nil {
			return err
		}
	}
	return nil
}

// printAndAck acknowledges the messages also after Ctrl-C, because they were printed.
func printAndAck(ctx context.Context, s *session.Session, messages []*client.Raw) error {
	acks := make([]client.Ack, len(messages))
	for i, m := range messages {
		if err := printMessage(s, m); err != nil {
			return err
		}
		acks[i] = m.Ack(client.Completed, nil)
	}
	if len(acks) == 0 {
		return nil
	}
	results, err := s.Client.Ack(context.WithoutCancel(ctx), acks...)
	if err != nil {
		return err
	}
	for _, r := range results {
		if !r.Success {
			return errors.New("acknowledging " + r.TransactionID + ": " + r.Error)
		}
	}
	return nil
}

// printMessage prints the payload, or with --output the message.
func printMessage(s *session.Session, m *client.Raw) error {
	if !s.IsTable() {
		return s.Value(m, "", "")
	}
	text, err := output.Compact(m.Data)
	if err != nil || s.Quiet {
		return err
	}
	return s.Write(text)
}

func newAck() *cobra.Command {
	var ack client.Ack
	var status string
	var retryAfter time.Duration
	cmd := &cobra.Command{
		Use:     "ack PARTITION_ID TRANSACTION_ID",
		Short:   "Acknowledge a message, and those before it in its partition",
		Example: `  belfry ack 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --group billing --lease-id 0198f9a1-02b7-7c3e-9d10-4b8e5f6a7c8d`,
		Args:    cobra.ExactArgs(2),
		RunE: session.Run(func(s *session.Session, args []string) error {
			ack.PartitionID, ack.TransactionID, ack.Status = args[0], args[1], client.AckStatus(status)
			ack.RetryAfterSeconds = retryAfter.Seconds()
			results, err := s.Client.Ack(s.Cmd.Context(), ack)
			if err != nil {
				return err
			}
			if err := s.Value(results, "", ackColumns); err != nil {
				return err
			}
			if !results[0].Success {
				return errors.New("the acknowledgment was refused: " + results[0].Error)
			}
			return nil
		}),
	}
	session.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&ack.Group, "group", "", "the consumer group; the reader without a group if none is named")
	f.StringVar(&ack.LeaseID, "lease-id", "", "the lease of the delivery; it is checked if it is named")
	f.StringVar(&status, "status", "completed", "completed, failed, retry or dlq")
	f.DurationVar(&retryAfter, "retry-after", 0, "how long until a message that is failed or retry is delivered again; 0 leaves it to the queue")
	f.StringVar(&ack.Error, "error", "", "why it failed; a dead letter keeps it")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"completed", "failed", "retry", "dlq"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

const ackColumns = "TRANSACTION-ID:transactionId SUCCESS:success LEASE-RELEASED:leaseReleased DEAD:dlq ERROR:error"

func newExtend() *cobra.Command {
	var by time.Duration
	cmd := &cobra.Command{
		Use: "extend LEASE_ID", Short: "Make a lease longer", Args: cobra.ExactArgs(1),
		Example: `  belfry extend 0198f9a1-02b7-7c3e-9d10-4b8e5f6a7c8d --by 5m`,
		RunE: session.Run(func(s *session.Session, args []string) error {
			until, err := s.Client.Extend(s.Cmd.Context(), args[0], by)
			if err != nil {
				return err
			}
			return s.Value(map[string]any{"leaseId": args[0], "expiresAt": until}, "",
				"LEASE-ID:leaseId EXPIRES:expiresAt")
		}),
	}
	session.AddFlags(cmd)
	cmd.Flags().DurationVar(&by, "by", time.Minute, "how long from now, from 1s to 168h")
	return cmd
}

func newTransaction() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "tx",
		Short: "Apply pushes and acknowledgments together, or none of them",
		Long: `Apply a transaction: a JSON object with operations and requiredLeases, as POST /api/v1/transaction has it, from --file or
standard input. The exit code is 1 if it is refused.`,
		Example: `  echo '{"operations": [{"type": "push", "queue": "invoices", "payload": {"id": 1}}]}' | belfry tx`,
		Args:    cobra.NoArgs,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			body, err := s.Input(file)
			if err != nil {
				return err
			}
			if !json.Valid(body) {
				return session.UsageError("the transaction is not JSON")
			}
			var answer []byte
			if err := s.Client.Do(s.Cmd.Context(), request.Post("/api/v1/transaction", nil, json.RawMessage(body)), &answer); err != nil {
				return err
			}
			if err := s.Answer(answer, "results", transactionColumns); err != nil {
				return err
			}
			var outcome struct {
				Success bool   `json:"success"`
				Error   string `json:"error"`
			}
			if err := json.Unmarshal(answer, &outcome); err != nil {
				return err
			}
			if !outcome.Success {
				return errors.New("the transaction was refused: " + outcome.Error)
			}
			return nil
		}),
	}
	session.AddFlags(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "-", "file with the transaction; - is standard input")
	return cmd
}

const transactionColumns = "INDEX:index TYPE:type SUCCESS:success TRANSACTION-ID:transactionId QUEUE:queueName ERROR:error"
