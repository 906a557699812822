package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/cli"
	"github.com/belfry-mq/belfry/pkg/process/logbuffer"
)

// keyFlags has the settings with a flag. Every other setting can be set by an environment variable or in the file.
var keyFlags = []struct{ key, usage string }{
	{"database.url", "DSN of the main database"},
	{"http.addr", "listen address, host:port"},
	{"log.level", "lowest level that is written: debug, info, warn or error"},
}

// runError is an error of the RunE of a command. Errors that cobra finds earlier (flags, arguments, unknown commands)
// have another type.
type runError struct{ err error }

func (e *runError) Error() string { return e.err.Error() }

func (e *runError) Unwrap() error { return e.err }

// newRootCmd returns the whole command tree.
func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "belfry",
		Short:         "An event dispatcher beside Postgres",
		Version:       app.Version(),
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("belfry {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.String("config", "", "YAML file with settings (env BELFRY_CONFIG)")
	for _, f := range keyFlags {
		flags.String(config.FlagName(f.key), "", fmt.Sprintf("%s (env %s)", f.usage, config.EnvName(f.key)))
	}
	const database = "database"
	root.AddGroup(&cobra.Group{ID: cli.GroupID, Title: "Commands that speak to a server (--server):"},
		&cobra.Group{ID: database, Title: "Commands that speak to the database (--database-url):"})
	root.AddCommand(cli.Commands()...)
	root.AddCommand(cli.NewDoctor(examineDatabase))
	root.SuggestionsMinimumDistance = 1
	for _, cmd := range []*cobra.Command{
		newServeCmd(), newMigrateCmd(), newAttachCmd(), newDetachCmd(), newAttachmentsCmd(), newRolesCmd(), newResealCmd(), newImportCmd(),
	} {
		cmd.GroupID = database
		root.AddCommand(cmd)
	}
	root.AddCommand(newDevCmd(), newConfigCmd(), newHealthCmd(), newBenchCmd(), newTokenCmd(), newVersionCmd())
	addPages(root)
	markRunErrors(root)
	return root
}

// noSuchCommand refuses a word that is not a command and suggests similar commands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		hint = ", did you mean " + strings.Join(names, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q%s", args[0], hint)
}

// markRunErrors wraps the RunE of each command so that its errors are runErrors. So the commands need not handle exit
// codes.
func markRunErrors(cmd *cobra.Command) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := work(cmd, args); err != nil {
				return &runError{err: err}
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		markRunErrors(child)
	}
}

// loadConfig reads the configuration from the flags of cmd, the environment and the file. The error lists every
// problem.
func loadConfig(cmd *cobra.Command) (config.Config, error) {
	flags := cmd.Flags()
	opts := config.Options{Environ: os.Environ(), Flags: map[string]string{}}
	opts.File = flags.Lookup("config").Value.String()
	for _, kf := range keyFlags {
		if f := flags.Lookup(config.FlagName(kf.key)); f.Changed {
			opts.Flags[kf.key] = f.Value.String()
		}
	}
	return config.Load(opts)
}

// withLogger runs work with the settings and a logger.
func withLogger(cmd *cobra.Command, work func(cfg config.Config, log *zap.Logger) error) error {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	log, err := newLogger(cfg, zapcore.Lock(os.Stderr))
	if err != nil {
		return err
	}
	// Sync always fails on a terminal or a pipe, so its error is ignored.
	defer func() { _ = log.Sync() }()
	return work(cfg, log)
}

// withServerLogger is withLogger for a server. The server does not wait for the reader of its log. ctx ends when the
// context of cmd ends, or when the reader closes the log: then nobody could watch the server.
func withServerLogger(cmd *cobra.Command, work func(ctx context.Context, cfg config.Config, log *zap.Logger) error) error {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	defer ignoreClosedPipes()()
	var log *zap.Logger
	buffer := logbuffer.New(os.Stderr, func(lines int64) {
		log.Warn("log lines were dropped because the reader of the log was too slow", zap.Int64("lines", lines))
	})
	if log, err = newLogger(cfg, buffer); err != nil {
		return err
	}
	defer func() { _ = buffer.Sync() }() // lines that Sync cannot write are lost
	go func() {
		select {
		case <-buffer.Gone():
			stop()
		case <-ctx.Done():
		}
	}()
	return work(ctx, cfg, log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return app.CountDropped(core, buffer.Dropped) })))
}

// newLogger returns the logger for the settings in "log". The log goes to standard error, because standard output is
// for the result of a command. The logger does no sampling, so the log contains the id of each 500 response.
func newLogger(cfg config.Config, to zapcore.WriteSyncer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(cfg.Log.Level)
	if err != nil {
		return nil, fmt.Errorf("reading log.level %q: %w", cfg.Log.Level, err)
	}
	lines := zap.NewProductionEncoderConfig()
	lines.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	lines.EncodeDuration = zapcore.StringDurationEncoder
	encoder, options := zapcore.NewJSONEncoder(lines), []zap.Option{zap.AddCaller(), zap.AddStacktrace(zap.ErrorLevel)}
	if cfg.Log.Format == "console" {
		lines.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		lines.EncodeLevel = zapcore.CapitalLevelEncoder
		lines.ConsoleSeparator = " "
		encoder, options = zapcore.NewConsoleEncoder(lines), nil
	}
	return zap.New(zapcore.NewCore(encoder, to, level), append(options, zap.ErrorOutput(to))...), nil
}

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "belfry %s\n", app.Version())
			return err
		},
	}
}
