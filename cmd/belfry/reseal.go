package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/engine/reseal"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
)

// progressInterval is the minimum time between two progress lines.
const progressInterval = 5 * time.Second

func newResealCmd() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "reseal QUEUE",
		Short: "Encrypt the stored messages of a queue with the current key",
		Long: `Encrypt the stored messages of a queue with the current key, the first key of
encryption.keys. Messages that are encrypted with another key are decrypted and encrypted
again. In a queue with encryptionEnabled, messages in clear text are encrypted too.
Servers may run meanwhile. They need both keys.

Ctrl-C stops after the current page of messages. Run the command again to continue. The
summary shows the number of messages of each key. If several runs still leave messages
with an old key, an instance still encrypts with that key.

With --check, the command decrypts every encrypted message and changes nothing. The exit
code is 1 if a message cannot be decrypted or read. Resealing doubles the space of each
message until Postgres vacuums the table belfry.message.`,
		Example: `  belfry reseal orders
  belfry reseal orders --check`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if cfg.Database.DirectURL() == "" {
				return errors.New(noDatabase)
			}
			sealer, err := seal.New(cfg.Encryption)
			if err != nil {
				return err
			}
			client, err := reseal.Open(cmd.Context(), cfg.Database.DirectURL().Reveal(), sealer)
			if err != nil {
				return err
			}
			err = resealQueue(cmd, client, args[0], check)
			return errors.Join(err, client.Close(context.WithoutCancel(cmd.Context())))
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing, and decrypt every encrypted message")
	return cmd
}

// resealQueue reseals or checks one queue and prints the summary.
func resealQueue(cmd *cobra.Command, client *reseal.Client, queueName string, check bool) error {
	shown := time.Now()
	report, err := client.Run(cmd.Context(), queueName, reseal.Options{Check: check, Progress: func(p reseal.Progress) {
		if now := time.Now(); now.Sub(shown) >= progressInterval {
			shown = now
			// If standard error cannot be written, the run continues without progress lines.
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "queue %s, pass %d: %d messages read, %d resealed, at partition %q\n",
				queueName, p.Pass, p.Read, p.Resealed, p.Partition)
		}
	}})
	switch {
	case errors.Is(err, reseal.ErrStopped):
		return fmt.Errorf("queue %s: %w: %d messages are resealed; run the command again to continue", queueName, err, report.Resealed)
	case errors.Is(err, reseal.ErrNoQueue):
		return err
	case err != nil:
		return fmt.Errorf("%w; %d messages are resealed: run the command again to continue", err, report.Resealed)
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), resealText(queueName, check, &report)); err != nil {
		return err
	}
	if report.Last.Failed > 0 {
		return fmt.Errorf("queue %s has %d messages that cannot be decrypted or read: add their keys to encryption.keys, or move the messages to the dead letters",
			queueName, report.Last.Failed)
	}
	return nil
}

// resealText returns the summary of a run.
func resealText(queueName string, check bool, report *reseal.Report) string {
	var b strings.Builder
	last := &report.Last
	if check {
		fmt.Fprintf(&b, "Queue %s: %d messages checked.\n", queueName, last.Read())
	} else {
		fmt.Fprintf(&b, "Queue %s: %d messages, %d resealed.\n", queueName, last.Read(), report.Resealed)
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") } // writes to memory
	row("KEY", "MESSAGES")
	for _, key := range slices.SortedFunc(maps.Keys(last.Messages), func(x, y string) int {
		return cmp.Or(cmp.Compare(last.Messages[y], last.Messages[x]), cmp.Compare(x, y))
	}) {
		note := ""
		if key == report.Current {
			note = " current"
		}
		row(key, fmt.Sprint(last.Messages[key])+note)
	}
	_ = w.Flush() // writes to memory
	if last.Locked > 0 {
		fmt.Fprintf(&b, "%d messages were skipped because a deletion had locked them. If the deletion failed, run the command again.\n", last.Locked)
	}
	if last.Failed > 0 {
		fmt.Fprintf(&b, "%d messages cannot be decrypted or read:\n", last.Failed)
	}
	for _, f := range last.Failures {
		fmt.Fprintf(&b, "  partition %q, transaction id %q, message %s, key %s: %v\n", f.Partition, f.TransactionID, f.ID, f.Key, f.Reason)
	}
	if more := last.Failed - len(last.Failures); more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	return b.String()
}
