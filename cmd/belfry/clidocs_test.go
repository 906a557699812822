package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// docs/cli.md is made from the commands: go test ./cmd/belfry -run TestDocumentation -update
func TestDocumentation(t *testing.T) {
	t.Parallel()
	const path = "../../docs/cli.md"
	text := documentation()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Split(text, "\n"), strings.Split(string(written), "\n"), "run: go test ./cmd/belfry -run TestDocumentation -update")
}

const introduction = `# Command line

This page is made from the commands. ` + "`belfry help COMMAND`" + ` prints the same.

Commands that speak to a server need no database and no configuration. They find it by ` + "`--server`" + `, by
` + "`BELFRY_SERVER`" + `, by the current context (` + "`belfry context`" + `), or at http://localhost:6632. The other commands are
the server itself, or work on the database (` + "`--database-url`" + `).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it failed, or something that the command line names does not exist (with ` + "`--if-exists`" + ` 0) |
| 2 | the command line is wrong, or ` + "`belfry apply --dry-run`" + ` found a difference |
| 3 | the server refused the token |
| 4 | ` + "`belfry pop`" + ` found no message |

` + "`-o`" + ` selects the output: a table for people, or json, ndjson, yaml and jsonpath=… for programs, which have everything that
the server answered. Tables shorten.

`

func documentation() string {
	var out strings.Builder
	out.WriteString(introduction)
	root := newRootCmd()
	out.WriteString("| command | purpose |\n|---|---|\n")
	each(root, func(c *cobra.Command) {
		fmt.Fprintf(&out, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
	})
	each(root, func(c *cobra.Command) {
		fmt.Fprintf(&out, "\n## %s\n\n", c.CommandPath())
		if c.Long != "" {
			out.WriteString(c.Long + "\n\n")
		} else {
			out.WriteString(c.Short + ".\n\n")
		}
		fmt.Fprintf(&out, "```\n%s\n```\n", c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&out, "\n```sh\n%s\n```\n", strings.TrimRight(unindent(c.Example), "\n"))
		}
		flags(&out, c)
	})
	return out.String()
}

// each calls f for each command that does something, in order.
func each(cmd *cobra.Command, f func(c *cobra.Command)) {
	for _, c := range cmd.Commands() {
		switch {
		case c.Hidden || c.Name() == "help" || c.Name() == "completion":
		case c.HasSubCommands():
			each(c, f)
		default:
			f(c)
		}
	}
}

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

func flags(out *strings.Builder, c *cobra.Command) {
	header := "\n| flag | default | meaning |\n|---|---|---|\n"
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		out.WriteString(header)
		header = ""
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", name, value, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
}
