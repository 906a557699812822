package noun

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

const (
	breakerColumns = `QUEUE:queue GROUP:consumerGroup STATE:state UNTIL:until OPENINGS:openings OPENED-BY:openedBy FAILURES-IN-A-ROW:failuresInARow
		REASON:reason CONFIGURED:configured:wide OPENED:openedAt:age:wide PROBING:probing:wide COMPLETED:completed:wide FAILED:failed:wide`
	breakerChangedColumns = "QUEUE:queue GROUP:consumerGroup CHANGED:changed OPEN:open UNTIL:until"
)

// newGroupBreaker returns the command for the breaker of a group.
func newGroupBreaker() *cobra.Command {
	cmd := &cobra.Command{
		Use: "breaker GROUP QUEUE", Short: "Show, open or close the breaker of a consumer group", Args: cobra.ExactArgs(2),
		Long: `Show, open or close the breaker of a consumer group in a queue. Without flags it shows the state. While the breaker is open, the
group gets no message. The limits of the group must have a breaker; see "belfry group limit". docs/flow.md describes breakers.`,
		Example: `  belfry group breaker billing orders
  belfry group breaker billing orders --open 5m --reason 'the bank is down'
  belfry group breaker billing orders --close`,
		ValidArgsFunction: session.Complete([]session.Completion{session.Groups, session.Queues}),
		RunE:              session.Run(runBreaker),
	}
	session.AddFlags(cmd)
	f := cmd.Flags()
	f.String("open", "", "open the breaker for this time, such as 5m: at most 24h")
	f.String("reason", "", "the reason of --open, which the state and the audit show")
	f.Bool("close", false, "close the breaker")
	f.Bool("dry-run", false, "change nothing: show the changes")
	return cmd
}

func runBreaker(s *session.Session, args []string) error {
	f, path := s.Cmd.Flags(), "/api/v1/consumer-groups/"+url.PathEscape(args[0])+"/queues/"+url.PathEscape(args[1])+"/breaker"
	pause, reason := f.Lookup("open").Value.String(), f.Lookup("reason").Value.String()
	shut, _ := f.GetBool("close") // the command has this flag
	open := f.Changed("open")
	req, columns, would := client.Request{Path: path}, output.Columns(breakerColumns), ""
	switch {
	case open && shut:
		return session.UsageError("give --open or --close, not both")
	case reason != "" && !open:
		return session.UsageError("--reason belongs to --open")
	case open:
		req, columns = client.Request{Method: http.MethodPost, Path: path + "/open", Body: api.OpenBreaker{Pause: pause, Reason: reason}}, breakerChangedColumns
		would = "would open the breaker of the group \"" + args[0] + "\" in the queue \"" + args[1] + "\" for " + pause
	case shut:
		req, columns = client.Request{Method: http.MethodPost, Path: path + "/close"}, breakerChangedColumns
		would = "would close the breaker of the group \"" + args[0] + "\" in the queue \"" + args[1] + "\""
	}
	var answer []byte
	if s.DryRun && would != "" {
		return foretold(s, path, would)
	}
	if err := s.Client.Do(s.Cmd.Context(), req, &answer); err != nil {
		return err
	}
	return s.Answer(answer, "", columns)
}

// foretold prints a change that a dry run leaves out. It prints the state of the breaker in the other formats.
func foretold(s *session.Session, path, would string) error {
	var answer []byte
	if err := s.Client.Do(s.Cmd.Context(), client.Request{Path: path}, &answer); err != nil {
		return err
	}
	if s.IsTable() {
		return s.Text(would)
	}
	return s.Answer(answer, "", breakerColumns)
}
