package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/migrate"
)

var errNoDatabaseToMigrate = errors.New("no database is named: set --database-url, BELFRY_DATABASE_URL or PG_HOST " +
	"(migrations use database.listen_url when it is set)")

func newMigrateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema of the database up to date, or back",
		Long: `Bring the schema of the database to the version this binary needs, or back.
Several instances may do so at once: one works, the others wait for it. A
migration that fails is rolled back; "belfry migrate status" says what to do.`,
		Args:                       noSuchCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMigrateUpCmd(), newMigrateDownCmd(), newMigrateStatusCmd(), newMigrateForceCmd(), newMigratePlanCmd())
	return cmd
}

// newMigrator makes a Migrator from the configuration. Its log goes to standard
// error unbuffered, so nothing is lost when the process ends.
func newMigrator(cmd *cobra.Command) (*migrate.Migrator, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	if cfg.Database.DirectURL() == "" {
		return nil, errNoDatabaseToMigrate
	}
	log, err := newLogger(cfg)
	if err != nil {
		return nil, err
	}
	return migrate.New(migrate.Config{URL: cfg.Database.DirectURL(), LockTimeout: cfg.Database.MigrateLockTimeout}, log), nil
}

func newMigrateUpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run every migration the schema lacks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := newMigrator(cmd)
			if err != nil {
				return err
			}
			if err := m.Up(cmd.Context()); err != nil {
				return err
			}
			return printVersion(cmd.Context(), m, cmd.OutOrStdout())
		},
	}
}

func newMigrateDownCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "down [N]",
		Short: "Undo the last N migrations (1 by default); this destroys data",
		Long: `Undo the last N migrations, 1 by default. What is stored in the tables and
columns they made is destroyed; undoing the first destroys every message. The
command asks on a terminal and needs --yes elsewhere.`,
		Example: `  belfry migrate down
  belfry migrate down 2 --yes`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), numbers(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			steps := 1
			if len(args) == 1 {
				steps, _ = strconv.Atoi(args[0]) // checked by numbers
			}
			m, err := newMigrator(cmd)
			if err != nil {
				return err
			}
			if !yes {
				if err := confirmDown(cmd.Context(), m, steps, cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if err := m.Down(cmd.Context(), steps); err != nil {
				return err
			}
			return printVersion(cmd.Context(), m, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask: the data may be destroyed")
	return cmd
}

func newMigrateStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the version of the schema and what is pending",
		Long: `Print the version of the schema, the version this binary needs and the pending
migrations. The exit code is 0 unless the schema is dirty, being migrated, or
newer than this binary.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := newMigrator(cmd)
			if err != nil {
				return err
			}
			status, err := m.Status(cmd.Context())
			if err != nil {
				return err
			}
			if err := printStatus(cmd.OutOrStdout(), status); err != nil {
				return err
			}
			var older *migrate.OlderError
			if errors.As(status.Problem, &older) {
				return nil // the list of pending migrations says it
			}
			return status.Problem
		},
	}
}

func newMigrateForceCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "force VERSION",
		Short: "Record VERSION as the schema's version and clear the dirty mark",
		Long: `Record VERSION as the schema's version and clear the dirty mark, after a
migration failed. No table is touched. "belfry migrate status" names the right
version; 0 is the empty schema.`,
		Example: `  belfry migrate force 2`,
		Args:    cobra.MatchAll(cobra.ExactArgs(1), numbers(0)),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, _ := strconv.Atoi(args[0]) // checked by numbers
			m, err := newMigrator(cmd)
			if err != nil {
				return err
			}
			if err := m.Force(cmd.Context(), version); err != nil {
				return err
			}
			return printVersion(cmd.Context(), m, cmd.OutOrStdout())
		},
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := newMigrator(cmd)
			if err != nil {
				return err
			}
			steps, err := m.Plan(cmd.Context())
			if err != nil {
				return err
			}
			return printPlan(cmd.OutOrStdout(), steps, showSQL)
		},
	}
	cmd.Flags().BoolVar(&showSQL, "sql", false, "print the statements too")
	return cmd
}

// numbers accepts arguments that are whole numbers from least on.
func numbers(least int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for _, arg := range args {
			if n, err := strconv.Atoi(arg); err != nil || n < least {
				return fmt.Errorf("%q is not a number from %d on", arg, least)
			}
		}
		return nil
	}
}

func printVersion(ctx context.Context, m *migrate.Migrator, out io.Writer) error {
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The schema is at version %d, the latest is %d.\n", status.Version, status.Latest)
	return err
}

func printStatus(out io.Writer, status migrate.Status) error {
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
	_, err := io.WriteString(out, b.String())
	return err
}

// printPlan writes text that psql can run: what is not SQL is a comment when
// SQL was asked for.
func printPlan(out io.Writer, steps []migrate.Step, showSQL bool) error {
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
	_, err := io.WriteString(out, b.String())
	return err
}

// confirmDown asks on a terminal. It returns nil only after a typed "yes".
func confirmDown(ctx context.Context, m *migrate.Migrator, steps int, in io.Reader, out io.Writer) error {
	terminal, ok := in.(*os.File)
	if !ok || !isatty.IsTerminal(terminal.Fd()) {
		return errors.New("undoing a migration destroys the data in what it made: add --yes if that is meant")
	}
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "The schema is at version %d. Undoing %d of its migrations destroys the data in what they made.\n"+
		"Type yes to go on: ", status.Version, steps); err != nil {
		return err
	}
	return readYes(ctx, terminal)
}

// readYes reads one line. A read from a terminal cannot be broken off: when ctx
// ends first, the reading goroutine stays until the process ends, which is next.
func readYes(ctx context.Context, in io.Reader) error {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n') // what came before the end counts
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
