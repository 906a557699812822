package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/attach"
)

// openDesk connects to the configured database, past a pooler if there is one.
func openDesk(cmd *cobra.Command) (*attach.Client, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	if cfg.Database.DirectURL() == "" {
		return nil, errors.New("no database is named: set --database-url, BELFRY_DATABASE_URL or PG_HOST")
	}
	return attach.Open(cmd.Context(), cfg.Database.DirectURL())
}

// withDesk runs work on a connection of its own.
func withDesk(cmd *cobra.Command, work func(ctx context.Context, desk *attach.Client) error) error {
	desk, err := openDesk(cmd)
	if err != nil {
		return err
	}
	return errors.Join(work(cmd.Context(), desk), desk.Close(context.WithoutCancel(cmd.Context())))
}

func newAttachCmd() *cobra.Command {
	var r attach.Request
	var payload []string
	var printOnly, list bool
	cmd := &cobra.Command{
		Use:   "attach TABLE --queue QUEUE",
		Short: "Make every change of a table a message",
		Long: `Make every change of a table a message: triggers write what was inserted,
updated or deleted to the inbox, in the transaction that did it. Whoever writes
to the table notices nothing; a message that cannot be written is dropped with a
warning, unless --strict. Attached again, what was attached for that queue is
replaced.

The table is written as in SQL, columns as they are: belfry attach
'sales."Order Lines"' --key 'Line No'. Only a column with a comma or a double quote
in its name is written in double quotes, those inside doubled. The table must belong
to the role that connects, and its owner must be a member of belfry_producer.

The condition of --when is an SQL expression over old and new; in an insert all
of old is NULL, in a delete all of new. The payload is "row" (the row), "changes"
(an update also tells the values before) or columns, to hold those alone.`,
		Example: `  belfry attach public.orders --queue orders --key id
  belfry attach orders --queue paid --on update --when "new.paid AND NOT old.paid" --payload id,total
  belfry attach orders --queue orders --print
  belfry attach --list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if list {
				return cobra.NoArgs(cmd, args)
			}
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return err
			}
			if r.Queue == "" {
				return errors.New("--queue says which queue gets the messages")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return runAttachments(cmd)
			}
			r.Table = args[0]
			r.Payload, r.Columns = shapeOf(payload)
			return withDesk(cmd, func(ctx context.Context, desk *attach.Client) error {
				if printOnly {
					text, err := desk.SQL(ctx, &r)
					if err != nil {
						return err
					}
					_, err = io.WriteString(cmd.OutOrStdout(), text)
					return err
				}
				if err := desk.Attach(ctx, &r); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "The changes of %s go to queue %s.\n", r.Table, r.Queue)
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.Queue, "queue", "", "the queue that gets the messages")
	flags.StringSliceVar(&r.Events, "on", nil, "events: insert, update, delete (default all of them)")
	flags.StringSliceVar(&r.Key, "key", nil, "columns whose values name the partition (default: one partition for all)")
	flags.StringVar(&r.Condition, "when", "", "an SQL expression over old and new: only rows for which it is true")
	flags.StringSliceVar(&payload, "payload", []string{attach.PayloadRow}, "row, changes, or the columns it holds")
	flags.BoolVar(&r.Strict, "strict", false, "fail the statement when its messages cannot be written")
	flags.BoolVar(&printOnly, "print", false, "print the SQL, and run none of it")
	flags.BoolVar(&list, "list", false, "list what is attached, as \"belfry attachments\" does")
	return cmd
}

// shapeOf reads --payload: row and changes are words, everything else columns;
// together they are both.
func shapeOf(words []string) (payload string, columns []string) {
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

func newDetachCmd() *cobra.Command {
	var queueName string
	cmd := &cobra.Command{
		Use:   "detach TABLE",
		Short: "Take the triggers of \"belfry attach\" away",
		Long: `Take the triggers of "belfry attach" away, those of --queue or all of them.
Messages that were written already are delivered. Without --queue, triggers that no
list shows any more, since what was noted of them is gone, are found as well.`,
		Example: `  belfry detach public.orders --queue orders`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDesk(cmd, func(ctx context.Context, desk *attach.Client) error {
				queues, err := desk.Detach(ctx, args[0], queueName)
				if err != nil {
					return err
				}
				if len(queues) == 0 {
					return fmt.Errorf("table %s is not attached; \"belfry attachments\" lists those that are", args[0])
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "The changes of %s no longer go to queue %s.\n", args[0], strings.Join(queues, ", "))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&queueName, "queue", "", "only the triggers for this queue")
	return cmd
}

func newAttachmentsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "attachments",
		Short: "List the tables whose changes become messages",
		Long: `List the tables whose changes become messages: those that belong to the role that
connects, and for an admin (belfry_admin, the owner of the schema) all of them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAttachments(cmd) },
	}
}

func runAttachments(cmd *cobra.Command) error {
	return withDesk(cmd, func(ctx context.Context, desk *attach.Client) error {
		list, err := desk.List(ctx)
		if err != nil {
			return err
		}
		return printAttachments(cmd.OutOrStdout(), list)
	})
}

func printAttachments(out io.Writer, list []attach.Attachment) error {
	if len(list) == 0 {
		_, err := io.WriteString(out, "Nothing is attached.\n")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var b strings.Builder
	b.WriteString("TABLE\tQUEUE\tON\tKEY\tPAYLOAD\tWHEN\tSTATE\n")
	for _, a := range list {
		payload := strings.Join(append([]string{a.Payload}, a.Columns...), ",")
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Table, a.Queue, strings.Join(a.Events, ","), strings.Join(a.Key, ","),
			payload, a.Condition, stateOf(&a))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return w.Flush()
}

// stateOf says whether an attachment works.
func stateOf(a *attach.Attachment) string {
	var words []string
	if a.Strict {
		words = append(words, "strict")
	}
	if missing := int64(len(a.Events)) - a.Triggers; missing > 0 {
		words = append(words, fmt.Sprintf("%d of %d triggers missing or off: attach it anew", missing, len(a.Events)))
	}
	if a.Failures > 0 {
		count := strconv.FormatInt(a.Failures, 10)
		if a.Failures >= attach.MaxFailures {
			count += " or more" // older ones are not kept
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
		Short: "Print the SQL that makes the database roles and their grants",
		Long: `Print the SQL that makes the roles belfry_producer, belfry_consumer and
belfry_admin and gives them their rights. "belfry migrate up" runs it where it may
create roles; elsewhere a role with CREATEROLE runs the CREATEs and the owner of
the schema the rest. SELECT belfry.role_grants('producer', 'my_role') has the
grants for a role of your own.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDesk(cmd, func(ctx context.Context, desk *attach.Client) error {
				statements, err := desk.RoleSQL(ctx)
				if err != nil {
					return err
				}
				_, err = io.WriteString(cmd.OutOrStdout(), strings.Join(statements, ";\n")+";\n")
				return err
			})
		},
	}
}
