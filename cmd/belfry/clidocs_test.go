package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// This test compares docs/cli.md with the commands. To write docs/cli.md: go test ./cmd/belfry -run TestDocumentation
// -update
func TestDocumentation(t *testing.T) {
	t.Parallel()
	const path = "../../docs/cli.md"
	text := documentation()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(text, "token for the server (env BELFRY_TOKEN; else the context)"), "a common flag is described once")
	require.Equal(t, strings.Split(text, "\n"), strings.Split(string(written), "\n"), "run: go test ./cmd/belfry -run TestDocumentation -update")
}

const introduction = `# Command line

This page is made from the commands. ` + "`belfry help COMMAND`" + ` prints the same text.

Commands that speak to a server need no database and no configuration. They take the URL of the server from
` + "`--server`" + `, then ` + "`BELFRY_SERVER`" + `, then the current context (` + "`belfry context`" + `). The default is
http://localhost:6632. The other commands run a server, or work on the database (` + "`--database-url`" + `).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the command failed, or an object that the command line names does not exist (0 with ` + "`--if-exists`" + `) |
| 2 | the command line is wrong, or ` + "`belfry apply --dry-run`" + ` found a difference |
| 3 | the server refused the token |
| 4 | ` + "`belfry pop`" + ` found no message |

` + "`-o`" + ` selects the output: a table for people, or json, ndjson, yaml and jsonpath=… for programs. The formats
for programs contain the complete answer of the server. A table leaves out part of it.

`

func documentation() string {
	var out strings.Builder
	out.WriteString(introduction)
	root := newRootCmd()
	common := commonFlags(root)
	out.WriteString("## Common flags\n\nMost commands that speak to a server have these flags. The section of each command names the common flags of the command.\n")
	header := flagHeader
	for _, row := range slices.Sorted(maps.Keys(common)) {
		out.WriteString(header + row)
		header = ""
	}
	out.WriteString("\n## Commands\n\n| command | purpose |\n|---|---|\n")
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
		flags(&out, c, common)
	})
	return out.String()
}

// each calls f for each visible command that does something, in order.
func each(cmd *cobra.Command, f func(c *cobra.Command)) {
	for _, c := range cmd.Commands() {
		switch {
		case c.Hidden || c.Name() == "help" || c.Name() == "completion":
		case c.HasSubCommands():
			if !onlyGroups(c) {
				f(c)
			}
			each(c, f)
		default:
			f(c)
		}
	}
}

// onlyGroups reports whether a command has only subcommands. `belfry bench` has a subcommand, and arguments of its own.
func onlyGroups(c *cobra.Command) bool { return c.HasSubCommands() && len(c.ValidArgs) == 0 }

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

const flagHeader = "\n| flag | default | meaning |\n|---|---|---|\n"

// shared is the minimum number of commands that must have a flag, so that the page describes it as a common flag.
const shared = 30

// commonFlags returns the rows of the flags that at least shared commands have with the same default and meaning.
func commonFlags(root *cobra.Command) map[string]bool {
	counts, common := map[string]int{}, map[string]bool{}
	each(root, func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			counts[flagRow(f)]++
			common[flagRow(f)] = true
		})
	})
	maps.DeleteFunc(common, func(row string, _ bool) bool { return row == "" || counts[row] < shared })
	return common
}

// flags writes the flags of a command. It writes only the names of common flags: their meaning is in the section on
// common flags.
func flags(out *strings.Builder, c *cobra.Command, common map[string]bool) {
	header := flagHeader
	var names []string
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		switch row := flagRow(f); {
		case common[row]:
			names = append(names, "`--"+f.Name+"`")
		case row != "":
			out.WriteString(header + row)
			header = ""
		}
	})
	if len(names) > 0 {
		fmt.Fprintf(out, "\nAlso %s: see [above](#common-flags).\n", strings.Join(names, ", "))
	}
}

// flagRow returns the row of a flag in a table, or "" if the page does not show the flag.
func flagRow(f *pflag.Flag) string {
	if f.Hidden || f.Name == "help" {
		return ""
	}
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	value := ""
	if f.DefValue != "" && f.DefValue != "[]" {
		value = "`" + f.DefValue + "`"
	}
	return fmt.Sprintf("| %s | %s | %s |\n", name, value, strings.ReplaceAll(f.Usage, "|", "\\|"))
}
