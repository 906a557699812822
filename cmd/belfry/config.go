package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/config"
)

func newConfigCmd() *cobra.Command {
	var check, reference bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force and where each came from",
		Long: `Print the settings in force as YAML, each with its source: default, file,
env or flag. Passwords are shown as ***. All problems are reported at once.

With --check, everything is refused that "belfry serve" refuses before it connects to
the database, with the same text: run it where the server will run, with its files.`,
		Example: `  belfry config
  belfry config --check --config belfry.yaml
  belfry config --reference > belfry.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reference {
				_, err := fmt.Fprint(cmd.OutOrStdout(), config.Reference())
				return err
			}
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if check {
				return checkServe(cmd.Context(), cfg)
			}
			return cfg.Print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only validate; print nothing when a server can start")
	cmd.Flags().BoolVar(&reference, "reference", false, "print a file with every key, its default and its meaning")
	cmd.MarkFlagsMutuallyExclusive("check", "reference")
	return cmd
}
