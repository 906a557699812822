package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client"
)

// verb is a command that sends one request and prints its answer.
type verb struct {
	use, short, long, example string
	// flags adds the flags of the verb.
	flags func(f *pflag.FlagSet)
	// request returns the request.
	request func(in *input) client.Request
	// rows is the path of the list in the answer, and columns how a table shows it.
	rows    string
	columns []output.Column
	// change verbs change something. They have --dry-run, which says what would be done and shows the answer of preview,
	// unless serverDryRun: then the request says it.
	change, serverDryRun bool
	// would is what a dry run says after "would". Arguments are inserted as in ask.
	would string
	// preview returns the request that counts what would change. Nil, or a request without a path: there is nothing to count.
	preview func(in *input) client.Request
	// previewRows and previewColumns show the answer of preview.
	previewRows    string
	previewColumns []output.Column
	// named returns what the command line names and what must exist. The exit code is 1 if it does not, or 0 with --if-exists.
	named func(in *input) []thing
	// ask is the question before the request, or "". Arguments are inserted as {0}, {1}.
	ask string
	// one verbs show something by its name. The exit code is 1 if the answer has no row.
	one bool
	// each returns the requests that are sent instead of request, for each group or queue, and the names of these. Their counts
	// are summed. Nothing of that if it returns no request.
	each func(in *input) (requests []client.Request, names []string, err error)
	// repeat names the counts of the answer. The request is sent until "remaining" is 0, and the counts are summed.
	repeat []string
	// complete completes the arguments.
	complete []completion
}

// command returns the command of a verb.
func (v *verb) command() *cobra.Command {
	names := strings.Fields(v.use)[1:]
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long, Example: v.example, Args: cobra.ExactArgs(len(names)),
		ValidArgsFunction: completeWith(v.complete),
		RunE: func(cmd *cobra.Command, args []string) error {
			open := newSession
			if v.repeat != nil {
				open = newPatientSession
			}
			s, err := open(cmd)
			if err != nil {
				return err
			}
			return v.run(&input{session: s, args: args})
		},
	}
	addFlags(cmd)
	if v.flags != nil {
		v.flags(cmd.Flags())
	}
	if v.change {
		cmd.Flags().Bool("dry-run", false, "change nothing: show what would be done")
		if v.named != nil {
			ifExistsFlag(cmd.Flags())
		}
	}
	if v.ask != "" {
		cmd.Flags().BoolP("yes", "y", false, "do not ask")
	}
	return cmd
}

func (v *verb) run(in *input) error {
	request := v.request(in)
	if in.err != nil {
		return in.err
	}
	var missing error
	if v.named != nil {
		if missing = in.missing(v.named(in)); missing != nil && !isMissing(missing) {
			return missing
		}
	}
	if in.dryRun && !v.serverDryRun {
		if missing != nil {
			return in.unlessExpected(missing)
		}
		return v.foretell(in)
	}
	if v.ask != "" && !in.dryRun {
		if err := in.confirm(insertArgs(v.ask, in.args)); err != nil {
			return err
		}
	}
	// What is missing is asked for too: the server may refuse the token, or know more.
	answer, err := v.sendAll(in, request, missing == nil)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return in.unlessExpected(err)
	case err != nil:
		return err
	case missing != nil && v.empty(answer):
		return in.unlessExpected(missing)
	case v.one && output.Rows(answer, v.rows) == 0:
		return notFound(strings.Join(in.args, " "))
	case !v.change && output.Rows(answer, v.rows) == 0:
		noteGrants(in)
	}
	return in.Answer(answer, v.rows, v.columns)
}

// noteGrants says that a list is perhaps empty because the grants of the token hide what it would have.
func noteGrants(s *input) {
	var who struct {
		Grants json.RawMessage `json:"grants"`
	}
	if s.client.Do(s.cmd.Context(), get("/api/v1/whoami", nil), &who) == nil && len(who.Grants) > 0 && string(who.Grants) != "null" {
		s.note("the list is empty, and the token sees only what its grants allow: " + string(who.Grants))
	}
}

// empty reports whether the answer has nothing of what the command line names.
func (v *verb) empty(answer []byte) bool {
	switch {
	case v.repeat != nil:
		var counts struct {
			Matched int64 `json:"matched"`
		}
		return json.Unmarshal(answer, &counts) != nil || counts.Matched == 0
	case v.change:
		return true
	default:
		return output.Rows(answer, v.rows) == 0
	}
}

// foretell says what a dry run does not do.
func (v *verb) foretell(in *input) error {
	var counts []byte
	if v.preview != nil && v.preview(in).Path != "" {
		if err := in.client.Do(in.cmd.Context(), v.preview(in), &counts); err != nil {
			return in.unlessExpected(err)
		}
	}
	if counts == nil || in.IsTable() {
		if err := in.session.text("would " + insertArgs(v.would, in.args)); err != nil || counts == nil {
			return err
		}
	}
	return in.Answer(counts, v.previewRows, v.previewColumns)
}

// sendAll sends the requests of each, if there are any, or else the request.
func (v *verb) sendAll(in *input, request client.Request, split bool) ([]byte, error) {
	if v.each == nil || !split {
		return v.send(in, request)
	}
	requests, names, err := v.each(in)
	if err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return v.send(in, request)
	}
	sums := map[string]any{}
	for _, one := range requests {
		answer, err := v.send(in, one)
		if err != nil {
			return nil, err
		}
		members, err := decode(answer)
		if err != nil {
			return nil, err
		}
		for name, value := range members {
			if _, counts := value.(json.Number); counts {
				before, _ := sums[name].(int64) // 0 before the first
				value = before + number(value)
			}
			sums[name] = value
		}
	}
	sums["consumerGroup"] = strings.Join(names, ",")
	return json.Marshal(sums)
}

// send sends the request, and repeats it if the verb says so.
func (v *verb) send(in *input, request client.Request) (answer []byte, err error) {
	sums := map[string]int64{}
	shown := in.newProgress("messages")
	defer shown.End()
	for {
		if err := in.client.Do(in.cmd.Context(), request, &answer); err != nil || v.repeat == nil {
			return answer, err
		}
		members, err := decode(answer)
		if err != nil {
			return nil, err
		}
		did := int64(0)
		for _, name := range v.repeat {
			n := number(members[name])
			did += n
			sums[name] += n
			members[name] = sums[name]
		}
		members["matched"] = max(number(members["matched"]), sums[v.repeat[0]])
		if in.dryRun || number(members["remaining"]) == 0 || did == 0 {
			return json.Marshal(members)
		}
		done := sums[v.repeat[0]]
		shown.Show(done, float64(done)/float64(done+number(members["remaining"])), time.Now())
	}
}

// decode returns the members of an answer, with its numbers as json.Number.
func decode(answer []byte) (members map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return members, nil
}

func number(value any) int64 {
	n, _ := value.(json.Number) // 0 for anything else
	whole, _ := n.Int64()
	return whole
}

func insertArgs(text string, args []string) string {
	for i, arg := range args {
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(i)+"}", strconv.Quote(arg))
	}
	return text
}
