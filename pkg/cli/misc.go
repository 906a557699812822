package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// input reads a file, or standard input for "-".
func (s *session) input(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(s.cmd.InOrStdin())
	}
	return os.ReadFile(file)
}

func newPing() *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use: "ping", Short: "Measure how long the server takes to answer", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			for i := range count {
				began := time.Now()
				var health struct {
					Status  string `json:"status"`
					Version string `json:"version"`
				}
				if err := s.client.Do(cmd.Context(), get("/health", nil), &health); err != nil {
					return err
				}
				err := s.value(map[string]any{
					"server": s.server, "status": health.Status, "version": health.Version, "milliseconds": float64(time.Since(began).Microseconds()) / 1000,
				}, "", []column{{title: "SERVER", path: "server"}, {title: "STATUS", path: "status"}, {title: "VERSION", path: "version"}, {title: "MS", path: "milliseconds"}})
				if err != nil {
					return err
				}
				if i+1 < count && !rest(cmd.Context(), time.Second) {
					return nil
				}
			}
			return nil
		},
	}
	addFlags(cmd)
	cmd.Flags().IntVar(&count, "count", 1, "how often, once a second")
	return cmd
}

func newMetrics() *cobra.Command {
	var match string
	cmd := &cobra.Command{
		Use: "metrics", Short: "Print the metrics of the server, as Prometheus reads them", Args: cobra.NoArgs,
		Example: `  belfry metrics --match queue`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			var text []byte
			if err := s.client.Do(cmd.Context(), get("/metrics/prometheus", nil), &text); err != nil {
				return err
			}
			for line := range bytes.Lines(text) {
				if !bytes.Contains(line, []byte(match)) || s.quiet {
					continue
				}
				if err := s.write(line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addFlags(cmd)
	cmd.Flags().StringVar(&match, "match", "", "only lines with this text")
	return cmd
}

// exportPage is how many dead letters one request of the export asks for.
const exportPage = "1000"

func newDeadLetterExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Print all dead letters with their payloads, one as JSON in each line", Args: cobra.NoArgs,
		Example: `  belfry dlq export --queue orders > dead.ndjson`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			in := &input{session: s}
			query := deadLetterQuery(in, in.text("queue"))
			if in.err != nil {
				return in.err
			}
			query.Set("limit", exportPage)
			return s.exportDeadLetters(query)
		},
	}
	addFlags(cmd)
	cmd.Flags().String("queue", "", "only of this queue")
	deadLetterFilter(cmd.Flags())
	return cmd
}

func (s *session) exportDeadLetters(query url.Values) error {
	total := 0
	for {
		var page struct {
			Messages   []json.RawMessage `json:"messages"`
			Pagination struct {
				Next *string `json:"next"`
			} `json:"pagination"`
		}
		if err := s.client.Do(s.cmd.Context(), get("/api/v1/dlq", query), &page); err != nil {
			return err
		}
		for _, m := range page.Messages {
			if err := s.text(string(m)); err != nil {
				return err
			}
		}
		total += len(page.Messages)
		if page.Pagination.Next == nil {
			return nil
		}
		query.Set("cursor", *page.Pagination.Next)
		s.progress(fmt.Sprintf("%d dead letters", total))
	}
}

func newContext() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Short: "Name servers and tokens, and choose one", Args: cobra.NoArgs,
		Long: `Name servers and tokens, and choose the one that commands use. They are in belfry/contexts.yaml in the folder of the user for
settings, or in BELFRY_CONTEXTS. Only the owner may read the file, because it has tokens.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var added savedContext
	add := &cobra.Command{
		Use: "add NAME", Short: "Add a context, or change it", Args: cobra.ExactArgs(1),
		Example: `  belfry context add production --server https://belfry.example.com --token "$TOKEN"`,
		RunE: func(_ *cobra.Command, args []string) error {
			if added.Server == "" {
				return usageError("--server is missing")
			}
			if _, err := newClient(added.Server, added.Token, added.CAFile); err != nil {
				return err
			}
			return changeContexts(func(c *contexts) error {
				added.Name = args[0]
				if i := c.index(args[0]); i >= 0 {
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
	add.Flags().StringVar(&added.Server, "server", "", "URLs of the servers, with commas")
	add.Flags().StringVar(&added.Token, "token", "", "token for the server")
	add.Flags().StringVar(&added.CAFile, "ca-file", "", "PEM file with the CA of an https server")
	use := &cobra.Command{
		Use: "use NAME", Short: "Choose the context that commands use", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(func(c *contexts) error {
				if _, err := c.get(args[0]); err != nil {
					return err
				}
				c.Current = args[0]
				return nil
			})
		},
	}
	forget := &cobra.Command{
		Use: "remove NAME", Short: "Remove a context", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(func(c *contexts) error {
				i := c.index(args[0])
				if i < 0 {
					_, err := c.get(args[0])
					return err
				}
				c.Contexts = append(c.Contexts[:i], c.Contexts[i+1:]...)
				if c.Current == args[0] {
					c.Current = ""
				}
				return nil
			})
		},
	}
	cmd.AddCommand(add, use, forget, newContextList())
	return cmd
}

func newContextList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the contexts, without their tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			saved, err := loadContexts()
			if err != nil {
				return err
			}
			rows := []map[string]any{}
			for _, one := range saved.Contexts {
				rows = append(rows, map[string]any{"name": one.Name, "server": one.Server, "token": one.Token != "", "current": one.Name == saved.Current})
			}
			return s.value(rows, "", []column{
				{title: "NAME", path: "name"}, {title: "SERVER", path: "server"}, {title: "TOKEN", path: "token"}, {title: "CURRENT", path: "current"},
			})
		},
	}
	addFlags(cmd)
	return cmd
}

func changeContexts(change func(c *contexts) error) error {
	saved, err := loadContexts()
	if err != nil {
		return err
	}
	if err := change(&saved); err != nil {
		return err
	}
	return saved.save()
}

func completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	saved, err := loadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, one := range saved.Contexts {
		names = append(names, one.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// cheats are the commands that most people need.
const cheats = `Push and receive
  belfry push orders '{"id": 1}'                      one message
  belfry push orders --file orders.ndjson             one for each line
  belfry pop orders --auto-ack                        receive one
  belfry tail -f orders --group debug-$USER           watch messages come

Look
  belfry status                                       counts of everything
  belfry queue list                                   queues and what waits
  belfry lag --min-seconds 60                         who is late
  belfry explain --queue orders --group billing       why nothing comes
  belfry dlq list --queue orders                      what failed

Change
  belfry queue configure orders --option retryLimit=5
  belfry queue pause orders                           and queue resume
  belfry dlq redrive orders --group billing --all     deliver dead letters again
  belfry replay orders --group billing --to 15m       deliver the last 15 minutes again

Other servers
  belfry context add production --server https://belfry.example.com --token "$TOKEN"
  belfry context use production
`

func newCheat() *cobra.Command {
	return &cobra.Command{
		Use: "cheat", Short: "Print the commands that most people need", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), cheats)
			return err
		},
	}
}
