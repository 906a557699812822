package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/queenimport"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
)

func newImportCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Copy queues from another system",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImportQueenCmd())
	return cmd
}

func newImportQueenCmd() *cobra.Command {
	var from, keyFile string
	var options queenimport.Options
	cmd := &cobra.Command{
		Use:   "queen",
		Short: "Copy the queues of a Queen MQ 0.15 database",
		Long: `Copy the queues of a Queen MQ 0.15 database into the configured database: queues with
their options, partitions, messages, consumer groups with their positions, dead letters,
and the state of streams. Ids, times, transaction ids, trace ids, producer subjects and
payloads are kept. The source is only read.

Without --all, messages that every group has consumed are not copied. At the end, the
import compares each partition with the source. Ctrl-C stops the import. Run the command
again to continue. Stop the producers and consumers of the source before the last run.
Start the servers of the target only after the last run.

If some clients could not read a payload, the import stops and the error names the
message. The setting http.allow_any_json accepts such payloads.`,
		Example: `  belfry import queen --from postgres://queen@db/queen --dry-run
  belfry import queen --from postgres://queen@db/queen --source-key-file queen.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			if options.Key, err = sourceKey(keyFile); err != nil {
				return err
			}
			options.AllowAnyJSON = cfg.HTTP.AllowAnyJSON
			client, err := queenimport.Open(cmd.Context(), from, cfg.Database.DirectURL().Reveal(), sealer)
			if err != nil {
				return err
			}
			err = importQueues(cmd, client, options)
			return errors.Join(err, client.Close(context.WithoutCancel(cmd.Context())))
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "URL of the database of Queen MQ")
	cmd.Flags().BoolVar(&options.All, "all", false, "also copy messages that every group has consumed")
	cmd.Flags().BoolVar(&options.DryRun, "dry-run", false, "write nothing, and count what would be copied")
	cmd.Flags().StringVar(&keyFile, "source-key-file", "", "file with the QUEEN_ENCRYPTION_KEY of the source")
	if err := cmd.MarkFlagRequired("from"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// sourceKey reads the key of the source from a file. It returns nil if file is empty.
func sourceKey(file string) (*seal.Sealer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the source: %w", err)
	}
	key, err := seal.New(seal.Config{Key: setting.Secret(strings.TrimSpace(string(text)))})
	if err != nil {
		return nil, fmt.Errorf("the key of the source: %w", err)
	}
	return key, nil
}

// importQueues copies the queues, and prints progress and one result line for each queue.
func importQueues(cmd *cobra.Command, client *queenimport.Client, options queenimport.Options) error {
	options.Progress = func(r queenimport.Report) {
		// If standard error cannot be written, the import continues without progress lines.
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "queue %s: %d of %d messages copied\n", r.Queue, r.Copied, r.Messages)
	}
	reports, err := client.Run(cmd.Context(), options)
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(w, "QUEUE\tPARTITIONS\tMESSAGES\tENCRYPTED\tDEAD LETTERS\tGROUPS\tCOPIED\n") // Flush returns the error
	for _, r := range reports {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Queue, r.Partitions, r.Messages, r.Encrypted, r.DeadLetters, r.Groups, r.Copied)
	}
	return errors.Join(w.Flush(), err)
}
