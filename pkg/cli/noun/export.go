package noun

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/progress"
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// exportPage is the number of dead letters that the export reads with one request.
const exportPage = "1000"

func newDeadLetterExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Print all dead letters with their payloads, one JSON object per line", Args: cobra.NoArgs,
		Example: `  belfry dlq export --queue orders > dead.ndjson`,
		RunE: session.RunPatient(func(s *session.Session, _ []string) error {
			in := &verb.Input{Session: s}
			query := deadLetterQuery(in, in.Flag("queue"))
			if in.Err != nil {
				return in.Err
			}
			if err := in.Missing(theFlags(in)); err != nil {
				return err
			}
			return exportDeadLetters(s, query, func(line []byte) error { return s.Text(string(line)) })
		}),
	}
	session.AddServerFlags(cmd)
	cmd.Flags().String("queue", "", "only dead letters of this queue")
	deadLetterFilter(cmd.Flags())
	return cmd
}

// exportDeadLetters passes all dead letters of a query to write, newest first.
func exportDeadLetters(s *session.Session, query url.Values, write func(line []byte) error) error {
	query.Set("limit", exportPage)
	total := int64(0)
	var shown *progress.Progress
	if !session.IsTerminal(s.Cmd.OutOrStdout()) {
		shown = s.NewProgress("dead letters")
	}
	defer shown.End()
	for {
		var page struct {
			Messages   []json.RawMessage `json:"messages"`
			Pagination api.Page          `json:"pagination"`
		}
		if err := s.Client.Do(s.Cmd.Context(), request.Get("/api/v1/dlq", query), &page); err != nil {
			return err
		}
		for _, m := range page.Messages {
			if err := write(m); err != nil {
				return err
			}
		}
		total += int64(len(page.Messages))
		if page.Pagination.Next == nil {
			return nil
		}
		query.Set("cursor", *page.Pagination.Next)
		shown.Show(total, -1, time.Now())
	}
}
