//go:build release

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// newDevCmd returns a command that only fails: the programs that run a private Postgres are for
// development and no part of a release.
func newDevCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "dev",
		Short:              "Not in this build: run the server with a private Postgres",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("this build has no private Postgres; use make run or docker compose up")
		},
	}
}
