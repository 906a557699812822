//go:build release || windows

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// newDevCmd returns a command that always fails. A release does not contain the code that runs a private Postgres.
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
