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
	"github.com/belfry-mq/belfry/pkg/client/api/sheet"
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
			write := func(page []json.RawMessage, _ bool) error {
				return eachLetter(page, func(line []byte) error { return s.Text(string(line)) })
			}
			switch format := in.Flag("format"); format {
			case "ndjson":
			case "csv":
				write = func(page []json.RawMessage, first bool) error { return writeCSV(s, page, first) }
			default:
				return session.UsageError("--format is " + strconv.Quote(format) + ": use ndjson or csv")
			}
			return exportDeadLetters(s, query, write)
		}),
	}
	session.AddServerFlags(cmd)
	cmd.Flags().String("queue", "", "only dead letters of this queue")
	cmd.Flags().String("format", "ndjson", "ndjson, or csv: a cell that begins with = + - @ gets an apostrophe, so that no spreadsheet runs it")
	deadLetterFilter(cmd.Flags())
	return cmd
}

// exportDeadLetters passes all dead letters of a query to write, page by page, newest first. first is true for the first page.
func exportDeadLetters(s *session.Session, query url.Values, write func(page []json.RawMessage, first bool) error) error {
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
		if err := write(page.Messages, total == 0); err != nil {
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

// eachLetter passes the dead letters of a page to write.
func eachLetter(page []json.RawMessage, write func(line []byte) error) error {
	for _, m := range page {
		if err := write(m); err != nil {
			return err
		}
	}
	return nil
}

// writeCSV prints a page as CSV. The first page begins with the names of the columns.
func writeCSV(s *session.Session, page []json.RawMessage, first bool) error {
	list := api.DeadLetters{Messages: make([]api.DeadLetter, len(page))}
	for i, m := range page {
		if err := json.Unmarshal(m, &list.Messages[i]); err != nil {
			return err
		}
	}
	var text strings.Builder
	if err := sheet.Write(&text, list, first); err != nil {
		return err
	}
	if text.Len() == 0 {
		return nil
	}
	return s.Text(strings.TrimSuffix(text.String(), "\n"))
}
