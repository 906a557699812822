package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
)

var errNoDatabaseToMigrate = errors.New(noDatabase + " (migrations use database.listen_url if it is set)")

func newMigrateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the schema of the database up or down",
		Long: `Migrate the schema of the database to the version of this binary, or to an earlier
version. Several instances may run it at the same time: one instance migrates, and the
others wait. A failed migration is rolled back. Then "belfry migrate status" shows what to do.`,
		Args:                       noSuchCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMigrateUpCmd(), newMigrateDownCmd(), newMigrateStatusCmd(), newMigrateForceCmd(), newMigratePlanCmd())
	return cmd
}

// migrateRun returns the RunE of a migrate command. It runs work with a Migrator and prints the text that work
// returns.
func migrateRun(work func(cmd *cobra.Command, m *migrate.Migrator, args []string) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return withLogger(cmd, func(cfg config.Config, log *zap.Logger) error {
			url := cfg.Database.DirectURL().Reveal()
			if url == "" {
				return errNoDatabaseToMigrate
			}
			m := migrate.New(migrate.Config{URL: url, LockTimeout: cfg.Database.MigrateLockTimeout}, log)
			text, err := work(cmd, m, args)
			_, printErr := io.WriteString(cmd.OutOrStdout(), text)
			return errors.Join(err, printErr)
		})
	}
}

// versionAfter returns a text with the schema version after a change. If the change failed with err, it returns err.
func versionAfter(ctx context.Context, m *migrate.Migrator, err error) (string, error) {
	if err != nil {
		return "", err
	}
	status, err := m.Status(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The schema is at version %d, the latest is %d.\n", status.Version, status.Latest), nil
}

func newMigrateUpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run every pending migration",
		Args:  cobra.NoArgs,
		RunE: migrateRun(func(cmd *cobra.Command, m *migrate.Migrator, _ []string) (string, error) {
			return versionAfter(cmd.Context(), m, m.Up(cmd.Context()))
		}),
	}
}

func newMigrateDownCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "down [N]",
		Short: "Undo the last N migrations (1 by default); this destroys data",
		Long: `Undo the last N migrations, 1 by default. This destroys the data in the tables and
columns that these migrations created. Undoing the first migration destroys every message.
On a terminal, the command asks for confirmation. Elsewhere it needs --yes.`,
		Example: `  belfry migrate down
  belfry migrate down 2 --yes`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), numbers(1)),
		RunE: migrateRun(func(cmd *cobra.Command, m *migrate.Migrator, args []string) (string, error) {
			steps := 1
			if len(args) == 1 {
				steps, _ = strconv.Atoi(args[0]) // checked by numbers
			}
			if !yes {
				if err := confirmDown(cmd.Context(), m, steps, cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
					return "", err
				}
			}
			return versionAfter(cmd.Context(), m, m.Down(cmd.Context(), steps))
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

func newMigrateStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the version of the schema and the pending migrations",
		Long: `Print the version of the schema, the version of this binary and the pending
migrations. The exit code is 1 if a migration failed or is running, or if the schema is
newer than this binary. Otherwise it is 0.`,
		Args: cobra.NoArgs,
		RunE: migrateRun(func(cmd *cobra.Command, m *migrate.Migrator, _ []string) (string, error) {
			status, err := m.Status(cmd.Context())
			if err != nil {
				return "", err
			}
			var older *migrate.OlderError
			if errors.As(status.Problem, &older) {
				return statusText(status), nil // the text already lists the pending migrations
			}
			return statusText(status), status.Problem
		}),
	}
}

func newMigrateForceCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "force VERSION",
		Short: "Record VERSION as the schema's version and clear the dirty mark",
		Long: `Record VERSION as the schema's version and clear the dirty mark after a failed
migration. This changes no table. "belfry migrate status" prints the right version;
0 means the empty schema.`,
		Example: `  belfry migrate force 2`,
		Args:    cobra.MatchAll(cobra.ExactArgs(1), numbers(0)),
		RunE: migrateRun(func(cmd *cobra.Command, m *migrate.Migrator, args []string) (string, error) {
			version, _ := strconv.Atoi(args[0]) // checked by numbers
			return versionAfter(cmd.Context(), m, m.Force(cmd.Context(), version))
		}),
	}
}

func newMigratePlanCmd() *cobra.Command {
	var showSQL bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what \"belfry migrate up\" would run, without running it",
		Example: `  belfry migrate plan
  belfry migrate plan --sql`,
		Args: cobra.NoArgs,
		RunE: migrateRun(func(cmd *cobra.Command, m *migrate.Migrator, _ []string) (string, error) {
			steps, err := m.Plan(cmd.Context())
			if err != nil {
				return "", err
			}
			return planText(steps, showSQL), nil
		}),
	}
	cmd.Flags().BoolVar(&showSQL, "sql", false, "print the statements too")
	return cmd
}

// numbers returns a check that accepts only whole numbers that are not below least.
func numbers(least int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for _, arg := range args {
			if n, err := strconv.Atoi(arg); err != nil || n < least {
				return fmt.Errorf("%q is not a whole number of at least %d", arg, least)
			}
		}
		return nil
	}
}

func statusText(status migrate.Status) string {
	var b strings.Builder
	dirty := "no"
	if status.Dirty {
		dirty = "yes"
	}
	fmt.Fprintf(&b, "version    %d\nlatest     %d\ndirty      %s\n", status.Version, status.Latest, dirty)
	if status.Migrating != nil {
		fmt.Fprintf(&b, "migrating  %s\n", status.Migrating)
	}
	if len(status.Pending) == 0 {
		b.WriteString("pending    none\n")
	}
	for _, step := range status.Pending {
		fmt.Fprintf(&b, "pending    %06d %s\n", step.Version, step.Name)
	}
	return b.String()
}

// planText lists the pending migrations. With showSQL, psql can run the output: every line
// that is not SQL is a comment.
func planText(steps []migrate.Step, showSQL bool) string {
	var b strings.Builder
	comment := ""
	if showSQL {
		comment = "-- "
	}
	if len(steps) == 0 {
		b.WriteString(comment + "Nothing to run: the schema is at its latest version.\n")
	}
	for _, step := range steps {
		fmt.Fprintf(&b, "%s%06d %s\n", comment, step.Version, step.Name)
		if showSQL {
			b.WriteString(strings.TrimRight(step.SQL, "\n") + "\n\n")
		}
	}
	return b.String()
}

// confirmDown asks for confirmation on a terminal. It returns nil only for the answer "yes".
func confirmDown(ctx context.Context, m *migrate.Migrator, steps int, in io.Reader, out io.Writer) error {
	if !isTerminal(in) {
		return errors.New("undoing a migration destroys the data in the tables it created: add --yes to confirm")
	}
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "The schema is at version %d. Undoing %d of its migrations destroys the data in the tables they created.\n"+
		"Type yes to continue: ", status.Version, steps); err != nil {
		return err
	}
	return readYes(ctx, in)
}

// readYes returns nil if the next line is "yes". A read from a terminal cannot be canceled. So if ctx ends first, the
// reading goroutine stays until the process exits.
func readYes(ctx context.Context, in io.Reader) error {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n') // the text before an error is enough
		line <- text
	}()
	select {
	case text := <-line:
		if strings.TrimSpace(text) == "yes" {
			return nil
		}
		return errors.New("not confirmed: nothing was changed")
	case <-ctx.Done():
		return fmt.Errorf("not confirmed, nothing was changed: %w", ctx.Err())
	}
}
