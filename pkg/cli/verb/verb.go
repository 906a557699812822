// Package verb makes commands from table entries. An entry has the request to send and the columns of the answer.
//
// The commands also check that the named objects exist, ask for confirmation before a change, and describe the change
// in a dry run.
package verb

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
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/client"
)

// Verb is a command that sends one request and prints the answer.
type Verb struct {
	Use, Short, Long, Example string
	// Flags adds the flags of the command.
	Flags func(f *pflag.FlagSet)
	// Request returns the request.
	Request func(in *Input) client.Request
	// Rows is the path of the list in the answer. Columns are the columns of the table.
	Rows    string
	Columns output.Columns
	// Change means that the command changes something and has --dry-run. A dry run prints Would and the answer of
	// Preview. With ServerDryRun, it sends the request with a parameter for a dry run instead.
	Change, ServerDryRun bool
	// Would is the text after "would" in a dry run. Arguments are inserted as in Ask.
	Would string
	// Preview returns the request that counts the objects to change. If Preview is nil or the path is empty, nothing
	// is counted.
	Preview func(in *Input) client.Request
	// PreviewRows and PreviewColumns show the answer of Preview.
	PreviewRows    string
	PreviewColumns output.Columns
	// Named returns the named objects that must exist. If one is missing, the exit code is 1, or 0 with --if-exists.
	Named func(in *Input) []Thing
	// Ask is the question before the request, or "". {0} and {1} stand for arguments.
	Ask string
	// Touches returns a sentence with the number of objects that the command will change. It is shown after the question.
	Touches func(in *Input) (sentence string, err error)
	// Save writes the objects to a file before the command deletes them.
	Save *Save
	// One means that the command shows one named object. The exit code is 1 if the answer has no row.
	One bool
	// Each returns requests that are sent instead of Request, one for each group or queue, and the names of the
	// groups or queues. The counts of the answers are summed. If Each returns no request, Request is sent.
	Each func(in *Input) (requests []client.Request, names []string, err error)
	// Repeat has the names of counts in the answer. The request is repeated until "remaining" is 0, and the counts
	// are summed.
	Repeat []string
	// Complete has the completions of the arguments.
	Complete []session.Completion
}

// Save writes objects to a file. Wanted says whether the command line asks for it.
type Save struct {
	Wanted func(in *Input) bool
	Write  func(in *Input) error
}

// Command returns the cobra command of the verb.
func (v *Verb) Command() *cobra.Command {
	names, run := strings.Fields(v.Use)[1:], session.Run
	if v.Repeat != nil {
		run = session.RunPatient
	}
	cmd := &cobra.Command{
		Use: v.Use, Short: v.Short, Long: v.Long, Example: v.Example, Args: cobra.ExactArgs(len(names)),
		ValidArgsFunction: session.Complete(v.Complete),
		RunE:              run(func(s *session.Session, args []string) error { return v.run(&Input{Session: s, Args: args}) }),
	}
	session.AddFlags(cmd)
	if v.Flags != nil {
		v.Flags(cmd.Flags())
	}
	if v.Change {
		cmd.Flags().Bool("dry-run", false, "change nothing: show the changes")
		if v.Named != nil {
			IfExistsFlag(cmd.Flags())
		}
	}
	if v.Ask != "" {
		cmd.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	}
	return cmd
}

func (v *Verb) run(in *Input) error {
	request := v.Request(in)
	if in.Err != nil {
		return in.Err
	}
	var missing error
	if v.Named != nil {
		if missing = in.Missing(v.Named(in)); missing != nil && !isMissing(missing) {
			return missing
		}
	}
	if in.DryRun && !v.ServerDryRun {
		if missing != nil {
			return in.UnlessExpected(missing)
		}
		return v.foretell(in)
	}
	requests, names := []client.Request{request}, []string(nil)
	if v.Each != nil && missing == nil {
		each, of, err := v.Each(in)
		if err != nil {
			return err
		}
		if len(each) > 0 {
			requests, names = each, of
		}
	}
	requests, err := v.confirm(in, requests, missing == nil)
	if err != nil {
		return err
	}
	// The request is sent even if an object is missing: the server may refuse the token, or find the object.
	answer, err := v.sendAll(in, requests, names)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return in.UnlessExpected(err)
	case err != nil:
		return err
	case missing != nil && v.empty(answer):
		return in.UnlessExpected(missing)
	case v.One && output.Rows(answer, v.Rows) == 0:
		return NotFound(strings.Join(in.Args, " "))
	case !v.Change && output.Rows(answer, v.Rows) == 0:
		noteGrants(in)
	}
	return in.Answer(answer, v.Rows, v.Columns)
}

// noteGrants prints a line if the grants of the token may hide rows of the list.
func noteGrants(s *Input) {
	var who struct {
		Grants json.RawMessage `json:"grants"`
	}
	if s.Client.Do(s.Cmd.Context(), request.Get("/api/v1/whoami", nil), &who) == nil && len(who.Grants) > 0 && string(who.Grants) != "null" {
		s.Note("the list is empty; the token shows only objects that its grants allow: " + string(who.Grants))
	}
}

// empty reports whether the answer contains no object that the command line names.
func (v *Verb) empty(answer []byte) bool {
	switch {
	case v.Repeat != nil:
		var counts struct {
			Matched int64 `json:"matched"`
		}
		return json.Unmarshal(answer, &counts) != nil || counts.Matched == 0
	case v.Change:
		return true
	default:
		return output.Rows(answer, v.Rows) == 0
	}
}

// foretell prints the change that a dry run leaves out.
func (v *Verb) foretell(in *Input) error {
	var counts []byte
	if v.Preview != nil && v.Preview(in).Path != "" {
		if err := in.Client.Do(in.Cmd.Context(), v.Preview(in), &counts); err != nil {
			return in.UnlessExpected(err)
		}
	}
	if counts == nil || in.IsTable() {
		if err := in.Text("would " + insertArgs(v.Would, in.Args)); err != nil || counts == nil {
			return err
		}
	}
	return in.Answer(counts, v.PreviewRows, v.PreviewColumns)
}

// sendAll sends the requests. If they have names, it returns the sums of the answers.
func (v *Verb) sendAll(in *Input, requests []client.Request, names []string) ([]byte, error) {
	if names == nil {
		return v.send(in, requests[0])
	}
	sums := map[string]any{}
	for _, next := range requests {
		answer, err := v.send(in, next)
		if err != nil {
			return nil, err
		}
		members, err := decode(answer)
		if err != nil {
			return nil, err
		}
		for name, value := range members {
			if _, counts := value.(json.Number); counts {
				before, _ := sums[name].(int64) // 0 for the first answer
				value = before + number(value)
			}
			sums[name] = value
		}
	}
	sums["consumerGroup"] = strings.Join(names, ",")
	return json.Marshal(sums)
}

// send sends the request. If the verb has Repeat, it repeats the request.
func (v *Verb) send(in *Input, request client.Request) (answer []byte, err error) {
	sums := map[string]int64{}
	shown := in.NewProgress("messages")
	defer shown.End()
	for {
		if err := in.Client.Do(in.Cmd.Context(), request, &answer); err != nil || v.Repeat == nil {
			return answer, err
		}
		members, err := decode(answer)
		if err != nil {
			return nil, err
		}
		did := int64(0)
		for _, name := range v.Repeat {
			n := number(members[name])
			did += n
			sums[name] += n
			members[name] = sums[name]
		}
		members["matched"] = max(number(members["matched"]), sums[v.Repeat[0]])
		if in.DryRun || number(members["remaining"]) == 0 || did == 0 {
			return json.Marshal(members)
		}
		if at, _ := members["asOf"].(string); at != "" {
			request = with(request, "asOf", at) // further requests take what the first one counted
		}
		done := sums[v.Repeat[0]]
		shown.Show(done, float64(done)/float64(done+number(members["remaining"])), time.Now())
	}
}

// decode returns the members of an answer. Numbers are of type json.Number.
func decode(answer []byte) (members map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return members, nil
}

func number(value any) int64 {
	n, _ := value.(json.Number) // 0 for a value that is not a number
	whole, _ := n.Int64()
	return whole
}

func insertArgs(text string, args []string) string {
	for i, arg := range args {
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(i)+"}", strconv.Quote(arg))
	}
	return text
}
