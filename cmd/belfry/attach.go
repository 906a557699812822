package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

// attachRun returns a RunE. It opens a connection that bypasses a pooler, calls work, and prints the text that work
// returns.
func attachRun(work func(ctx context.Context, client *attach.Client, args []string) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		if cfg.Database.DirectURL() == "" {
			return errors.New(noDatabase)
		}
		client, err := attach.Open(cmd.Context(), cfg.Database.DirectURL().Reveal())
		if err != nil {
			return err
		}
		text, err := work(cmd.Context(), client, args)
		if err == nil {
			_, err = io.WriteString(cmd.OutOrStdout(), text)
		}
		return errors.Join(err, client.Close(context.WithoutCancel(cmd.Context())))
	}
}

// attachFlags are the flags of attach.
type attachFlags struct {
	request         attach.Request
	payload         []string
	printOnly, list bool
}

func newAttachCmd() *cobra.Command {
	f := &attachFlags{}
	cmd := &cobra.Command{
		Use:   "attach TABLE --queue QUEUE",
		Short: "Send a message for every change of a table",
		Long: `Send a message for every change of a table. Triggers write each inserted, updated or
deleted row to the inbox, in the transaction that changed it. Programs that write to
the table need no change. A message that cannot be written is dropped with a warning,
unless --strict is set. Attaching again replaces the attachment of the same queue.

Write the table name as in SQL, 'sales."Order Lines"', and column names without quotes,
--key 'Line No'. If a column name contains a comma or a double quote, put the name in
double quotes and write an inner double quote twice. The role that connects must own
the table, and the owner must be a member of belfry_producer.

The condition of --when is an SQL expression over the rows old and new. For an insert,
all columns of old are NULL. For a delete, all columns of new are NULL. The payload is
"row" (the row), "changes" (for an update also the earlier values) or a list of columns.`,
		Example: `  belfry attach public.orders --queue orders --key id
  belfry attach orders --queue paid --on update --when "new.paid AND NOT old.paid" --payload id,total
  belfry attach orders --queue orders --print
  belfry attach --list`,
		Args: f.checkArgs,
		RunE: attachRun(f.run),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.request.Queue, "queue", "", "the queue that gets the messages")
	flags.StringSliceVar(&f.request.Events, "on", nil, "events: insert, update, delete (default: all three)")
	flags.StringSliceVar(&f.request.Key, "key", nil, "columns whose values name the partition (default: one partition for all)")
	flags.StringVar(&f.request.Headers, "headers", "", "a JSON object of texts, or an SQL expression over old and new that returns one")
	flags.StringVar(&f.request.Condition, "when", "", "an SQL expression over old and new; only rows for which it is true send a message")
	flags.StringSliceVar(&f.payload, "payload", []string{attach.PayloadRow}, "row, changes, or the columns of the message")
	flags.BoolVar(&f.request.Strict, "strict", false, "fail the statement when its messages cannot be written")
	flags.BoolVar(&f.printOnly, "print", false, "print the SQL and do not run it")
	flags.BoolVar(&f.list, "list", false, "list the attached tables, like \"belfry attachments\"")
	return cmd
}

func (f *attachFlags) checkArgs(cmd *cobra.Command, args []string) error {
	if f.list {
		return cobra.NoArgs(cmd, args)
	}
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return err
	}
	if f.request.Queue == "" {
		return errors.New("--queue is missing: name the queue that gets the messages")
	}
	return nil
}

func (f *attachFlags) run(ctx context.Context, client *attach.Client, args []string) (string, error) {
	if f.list {
		return listAttachments(ctx, client, nil)
	}
	r := &f.request
	r.Table = args[0]
	r.Payload, r.Columns = parsePayload(f.payload)
	if f.printOnly {
		return client.SQL(ctx, r)
	}
	return fmt.Sprintf("The changes of %s go to queue %s.\n", r.Table, r.Queue), client.Attach(ctx, r)
}

// parsePayload reads --payload. If the first word is row or changes, it is the payload. Every other word is a column.
func parsePayload(words []string) (payload string, columns []string) {
	payload = attach.PayloadRow
	for i, word := range words {
		if i == 0 && (word == attach.PayloadRow || word == attach.PayloadChanges) {
			payload = word
			continue
		}
		columns = append(columns, word)
	}
	return payload, columns
}

// payloadWords is the reverse of parsePayload.
func payloadWords(payload string, columns []string) []string {
	if _, all := parsePayload(columns); payload == attach.PayloadRow && len(columns) > 0 && len(all) == len(columns) {
		return columns
	}
	return append([]string{payload}, columns...)
}

// asTyped writes a list in the form of a flag value: it puts a word with a comma or a double quote in double quotes.
func asTyped(words []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(words) // writes to memory, so it never fails
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

func newDetachCmd() *cobra.Command {
	var queueName string
	cmd := &cobra.Command{
		Use:   "detach TABLE",
		Short: "Drop the triggers of \"belfry attach\"",
		Long: `Drop the triggers of "belfry attach" on a table: only those for --queue, or all of
them. Messages that are already written will be delivered. Without --queue, detach also
drops triggers that "belfry attachments" does not list because their record is lost.`,
		Example: `  belfry detach public.orders --queue orders`,
		Args:    cobra.ExactArgs(1),
		RunE: attachRun(func(ctx context.Context, client *attach.Client, args []string) (string, error) {
			queues, err := client.Detach(ctx, args[0], queueName)
			if err == nil && len(queues) == 0 {
				err = fmt.Errorf("table %s is not attached; \"belfry attachments\" lists the attached tables", args[0])
			}
			return fmt.Sprintf("The changes of %s no longer go to queue %s.\n", args[0], strings.Join(queues, ", ")), err
		}),
	}
	cmd.Flags().StringVar(&queueName, "queue", "", "only the triggers for this queue")
	return cmd
}

func newAttachmentsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "attachments",
		Short: "List the attached tables",
		Long: `List the attached tables that belong to the role that connects. An admin
(belfry_admin, the owner of the schema) gets all of them.`,
		Args: cobra.NoArgs,
		RunE: attachRun(listAttachments),
	}
}

func listAttachments(ctx context.Context, client *attach.Client, _ []string) (string, error) {
	list, err := client.List(ctx)
	return attachmentsText(list), err
}

func attachmentsText(list []attach.Attachment) string {
	if len(list) == 0 {
		return "Nothing is attached.\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") } // writes to memory
	row("TABLE", "QUEUE", "ON", "KEY", "PAYLOAD", "WHEN", "STATE")
	for _, a := range list {
		row(a.Table, a.Queue, strings.Join(a.Events, ","), asTyped(a.Key), asTyped(payloadWords(a.Payload, a.Columns)), a.Condition, stateOf(&a))
	}
	_ = w.Flush() // writes to memory
	return b.String()
}

// stateOf describes the state of an attachment.
func stateOf(a *attach.Attachment) string {
	var words []string
	if a.Strict {
		words = append(words, "strict")
	}
	if missing := int64(len(a.Events)) - a.Triggers; missing > 0 {
		words = append(words, fmt.Sprintf("%d of %d triggers missing or disabled: attach the table again", missing, len(a.Events)))
	}
	if a.Failures > 0 {
		count := strconv.FormatInt(a.Failures, 10)
		if a.Failures >= attach.MaxFailures {
			count += " or more" // the server keeps the latest failures only
		}
		words = append(words, fmt.Sprintf("%s failures, the last at %s: %s", count, a.LastFailedAt.UTC().Format(time.RFC3339), a.LastFailure))
	}
	if len(words) == 0 {
		return "ok"
	}
	return strings.Join(words, "; ")
}

func newRolesCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "roles",
		Short: "Print the SQL that creates the database roles and their grants",
		Long: `Print the SQL that creates the roles belfry_producer, belfry_consumer and belfry_admin
and grants them their rights. "belfry migrate up" runs it if it may create roles. If
not, run the CREATE statements as a role with CREATEROLE and the rest as the owner of
the schema. SELECT belfry.role_grants('producer', 'my_role') returns the grants for
your own role.`,
		Args: cobra.NoArgs,
		RunE: attachRun(func(ctx context.Context, client *attach.Client, _ []string) (string, error) {
			statements, err := client.RoleSQL(ctx)
			return strings.Join(statements, ";\n") + ";\n", err
		}),
	}
}
