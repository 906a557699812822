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
	f.StringVar(&o.Group, "group", "", "the consumer group; without this flag __QUEUE_MODE__, the group of requests without a group")
	f.StringVar(&o.Partition, "partition", "", "only this partition")
	f.StringVar(&o.SubscriptionMode, "start", "", "start position of a new group: all or new messages")
	f.IntVar(&o.Batch, "batch", 1, "maximum messages per request, up to 10000")
	f.IntVar(&o.Partitions, "partitions", 1, "maximum partitions per request, up to 200")
}

func newPop() *cobra.Command {
	var o client.PopOptions
	cmd := &cobra.Command{
		Use:   "pop [QUEUE]",
		Short: "Receive messages",
		Long: `Receive messages of a queue, or of any queue of --namespace and --task. Each message has a lease. If you do not acknowledge
the message with "belfry ack" before the lease ends, the server delivers it again. After a table, the command prints the
"belfry ack" line of each partition on standard error. --auto-ack acknowledges at once. The exit code is 4 if there is no
message.`,
		Example: `  belfry pop orders --auto-ack
  belfry pop orders --group billing --batch 10 --wait 30s -o ndjson`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
		RunE: session.Run(func(s *session.Session, args []string) error {
			if (len(args) == 1) == (o.Namespace != "" || o.Task != "") {
				return session.UsageError("give a queue, or --namespace, --task or both")
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
	cmd.Flags().DurationVar(&o.Wait, "wait", 0, "maximum time to wait for a message, up to 10m")
	cmd.Flags().BoolVar(&o.AutoAck, "auto-ack", false, "acknowledge the messages at once")
	return cmd
}

// ackLine returns the command that acknowledges a message and all earlier messages of the delivery in its partition.
func ackLine(m *client.Raw, group string) string {
	line := "belfry ack " + quoted(m.PartitionID) + " " + quoted(m.TransactionID)
	if group != "" {
		line += " --group " + quoted(group)
	}
	return line + " --lease-id " + quoted(m.LeaseID)
}

// plainWord matches a word that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.,:/@%+=][A-Za-z0-9_.,:/@%+=-]*$`)

// quoted returns a word with the quotes that a shell needs.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// maxWait is the maximum wait that the server accepts.
const maxWait = 10 * time.Minute

func checkStart(mode string) error {
	if mode != "" && mode != "all" && mode != "new" {
		return session.UsageError(fmt.Sprintf("--start is %q: it must be all or new", mode))
	}
	return nil
}

// tailWait is the time that one request of tail waits for messages.
const tailWait = 30 * time.Second

func newTail() *cobra.Command {
	var o client.PopOptions
	var follow bool
	cmd := &cobra.Command{
		Use:   "tail QUEUE",
		Short: "Print messages as they arrive, and acknowledge them",
		Long: `Print the payload of each message on one line, then acknowledge the messages. With -f, wait for more messages until
Ctrl-C. A message that was printed but not acknowledged will be delivered and printed again.

Use a separate consumer group, so that no other consumer misses messages. A new group receives only new messages, unless
--start all is given.`,
		Example: `  belfry tail -f orders --group debug-anna`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
		RunE: session.RunPatient(func(s *session.Session, args []string) error {
			if o.Group == "" {
				return session.UsageError("--group is missing: give a group that no other consumer uses, because other consumers of the group would miss messages")
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

// printAndAck prints the messages and then acknowledges them, even after Ctrl-C.
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

// printMessage prints the payload. With --output it prints the complete message.
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
		Short:   "Acknowledge a message, and all earlier messages of its partition",
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
	f.StringVar(&ack.Group, "group", "", "the consumer group; without this flag __QUEUE_MODE__, the group of requests without a group")
	f.StringVar(&ack.LeaseID, "lease-id", "", "the lease of the delivery; with this flag the server checks that the lease is valid")
	f.StringVar(&status, "status", "completed", "completed, failed, retry or dlq")
	f.DurationVar(&retryAfter, "retry-after", 0, "delay of the next delivery after the status failed or retry; 0: the options of the queue decide")
	f.StringVar(&ack.Error, "error", "", "the reason of the failure, which a dead letter shows")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"completed", "failed", "retry", "dlq"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

const ackColumns = "TRANSACTION-ID:transactionId SUCCESS:success LEASE-RELEASED:leaseReleased DEAD:dlq ERROR:error"

func newExtend() *cobra.Command {
	var by time.Duration
	cmd := &cobra.Command{
		Use: "extend LEASE_ID", Short: "Extend a lease", Args: cobra.ExactArgs(1),
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
	cmd.Flags().DurationVar(&by, "by", time.Minute, "the new lease time from now, from 1s to 168h")
	return cmd
}

func newTransaction() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "tx",
		Short: "Apply pushes and acknowledgments in one transaction",
		Long: `Apply a transaction: a JSON object with operations and requiredLeases, the body of POST /api/v1/transaction. The command
reads it from --file or standard input. The exit code is 1 if the server refuses the transaction.`,
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
