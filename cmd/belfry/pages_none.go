//go:build !pages

package main

import "github.com/spf13/cobra"

// addPages adds nothing: the binary for users cannot write its manual pages. The build tag pages adds the command.
func addPages(*cobra.Command) {}
