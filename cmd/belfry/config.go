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
		Short: "Print the effective settings and the source of each one",
		Long: `Print the effective settings as YAML, each with its source: default, file, env or flag.
Passwords are shown as ***. All problems are reported at once.

With --check, print only the problems for which "belfry serve" refuses to start before it
connects to the database. Run it on the machine of the server, with the files of the server.`,
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
	cmd.Flags().BoolVar(&check, "check", false, "only validate; print nothing if the settings are valid")
	cmd.Flags().BoolVar(&reference, "reference", false, "print a file with every key, its default and its meaning")
	cmd.MarkFlagsMutuallyExclusive("check", "reference")
	return cmd
}
