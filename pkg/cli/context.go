package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/contexts"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

func newContext() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Short: "Save servers and tokens under names, and choose one", Args: cobra.NoArgs,
		Long: `Save servers and tokens under names (contexts), and choose the context that commands use. The file of the contexts is
belfry/contexts.yaml in the user's configuration folder, or the file that BELFRY_CONTEXTS names. Only the owner may read
the file, because it contains tokens.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	use := &cobra.Command{
		Use: "use NAME", Short: "Choose the context that commands use", Args: cobra.ExactArgs(1), ValidArgsFunction: session.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(func(c *contexts.File) error {
				if _, err := c.Get(args[0]); err != nil {
					return session.UsageError(err.Error())
				}
				c.Current = args[0]
				return nil
			})
		},
	}
	forget := &cobra.Command{
		Use: "remove NAME", Short: "Remove a context", Args: cobra.ExactArgs(1), ValidArgsFunction: session.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(func(c *contexts.File) error {
				i := c.Index(args[0])
				if i < 0 {
					_, err := c.Get(args[0])
					return session.UsageError(err.Error())
				}
				c.Contexts = append(c.Contexts[:i], c.Contexts[i+1:]...)
				if c.Current == args[0] {
					c.Current = ""
				}
				return nil
			})
		},
	}
	cmd.AddCommand(newContextAdd(), use, forget, newContextList())
	return cmd
}

func newContextAdd() *cobra.Command {
	var added contexts.Context
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a context, or change it", Args: cobra.ExactArgs(1),
		Example: `  belfry context add production --server https://belfry.example.com --token "$TOKEN"`,
		Long:    "Add a context, or change it. Flags that you leave out keep their values. A new server removes the token.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContexts(func(c *contexts.File) error {
				added.Name = args[0]
				i := c.Index(args[0])
				if i >= 0 {
					keep(cmd, &added, c.Contexts[i])
				}
				if added.Server == "" {
					return session.UsageError("--server is missing")
				}
				if _, err := session.NewClient(added.Server, added.Token, added.CAFile, session.NoRetry, nil); err != nil {
					return err
				}
				if i >= 0 {
					c.Contexts[i] = added
				} else {
					c.Contexts = append(c.Contexts, added)
				}
				if c.Current == "" {
					c.Current = args[0]
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&added.Server, "server", "", "URLs of the servers, separated by commas")
	cmd.Flags().StringVar(&added.Token, "token", "", "token for the server")
	cmd.Flags().StringVar(&added.CAFile, "ca-file", "", "PEM file with the CA of an https server")
	return cmd
}

// keep copies the values of the earlier context to the fields of added that are empty. It drops the token if the
// server changes.
func keep(cmd *cobra.Command, added *contexts.Context, before contexts.Context) {
	added.Server, added.CAFile = cmp.Or(added.Server, before.Server), cmp.Or(added.CAFile, before.CAFile)
	switch {
	case added.Token != "" || before.Token == "":
	case added.Server == before.Server:
		added.Token = before.Token
	default:
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "the token was removed, because it belongs to the server "+before.Server)
	}
}

func newContextList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the contexts, without their tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer, err := session.PrinterOf(cmd)
			if err != nil {
				return err
			}
			s := &session.Session{Cmd: cmd, Printer: printer}
			saved, err := contexts.Load()
			if err != nil {
				return err
			}
			rows := []map[string]any{}
			for _, named := range saved.Contexts {
				rows = append(rows, map[string]any{"name": named.Name, "server": named.Server, "token": named.Token != "", "current": named.Name == saved.Current})
			}
			return s.Value(rows, "", "NAME:name SERVER:server TOKEN:token CURRENT:current")
		},
	}
	session.AddOutputFlags(cmd)
	return cmd
}

func changeContexts(change func(c *contexts.File) error) error {
	saved, err := contexts.Load()
	if err != nil {
		return err
	}
	if err := change(&saved); err != nil {
		return err
	}
	return saved.Save()
}
