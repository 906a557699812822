package noun

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
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
		Use: "export", Short: "Print all dead letters with their payloads, one JSON object or CSV row per line", Args: cobra.NoArgs,
		Example: `  belfry dlq export --queue orders > dead.ndjson
  belfry dlq export --queue orders --format csv > dead.csv`,
		RunE: session.RunPatient(func(s *session.Session, _ []string) error {
			in := &verb.Input{Session: s}
			query := deadLetterQuery(in, in.Flag("queue"))
			if in.Err != nil {
				return in.Err
			}
			if err := in.Missing(theFlags(in)); err != nil {
				return err
			}
			query.Set("limit", exportPage)
			switch format := in.Flag("format"); format {
			case "ndjson", "csv":
				return exportDeadLetters(s, query, format == "csv")
			default:
				return session.UsageError("--format is " + strconv.Quote(format) + ": use ndjson or csv")
			}
		}),
	}
	session.AddServerFlags(cmd)
	cmd.Flags().String("queue", "", "only dead letters of this queue")
	cmd.Flags().String("format", "ndjson", "ndjson, or csv: a cell that begins with = + - @ gets an apostrophe, so that no spreadsheet runs it")
	deadLetterFilter(cmd.Flags())
	return cmd
}

func exportDeadLetters(s *session.Session, query url.Values, asCSV bool) error {
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
		if err := writeLetters(s, page.Messages, asCSV, total == 0); err != nil {
			return err
		}
		total += int64(len(page.Messages))
		if page.Pagination.Next == nil {
			return nil
		}
		query.Set("cursor", *page.Pagination.Next)
		shown.Show(total, -1, time.Now())
	}
}

// writeLetters prints a page. As CSV, the first page begins with the names of the columns.
func writeLetters(s *session.Session, page []json.RawMessage, asCSV, first bool) error {
	if !asCSV {
		for _, m := range page {
			if err := s.Text(string(m)); err != nil {
				return err
			}
		}
		return nil
	}
	list := api.DeadLetters{Messages: make([]api.DeadLetter, len(page))}
	for i, m := range page {
		if err := json.Unmarshal(m, &list.Messages[i]); err != nil {
			return err
		}
	}
	var text strings.Builder
	if err := api.WriteCSV(&text, list, first); err != nil {
		return err
	}
	if text.Len() == 0 {
		return nil
	}
	return s.Text(strings.TrimSuffix(text.String(), "\n"))
}
