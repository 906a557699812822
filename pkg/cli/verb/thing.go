package verb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/client"
)

// Thing is something that a command line names.
type Thing struct {
	// What is its kind and name.
	What string
	// Request asks for it. The answer is 404 without it.
	Request client.Request
	// Rows, Member and Name find it in a list that the server answers. Without Member the request alone does.
	Rows, Member, Name string
}

// QueueNamed is a queue.
func QueueNamed(name string) Thing {
	return Thing{What: fmt.Sprintf("the queue %q", name), Request: request.Get("/api/v1/resources/queues/"+url.PathEscape(name)+"/groups", url.Values{"limit": {"1"}})}
}

// GroupNamed is a group of a queue, or of any queue for "".
func GroupNamed(name, queueName string) Thing {
	if queueName == "" {
		return Thing{What: fmt.Sprintf("the group %q", name), Request: request.Get("/api/v1/consumer-groups", nil), Member: "name", Name: name}
	}
	return Thing{
		What:    fmt.Sprintf("the group %q of the queue %q", name, queueName),
		Request: request.Get("/api/v1/consumer-groups/"+url.PathEscape(name)+"/queues/"+url.PathEscape(queueName), nil),
	}
}

// Missing returns an error for the first of the things that does not exist: see isMissing.
func (in *Input) Missing(all []Thing) error {
	for _, t := range all {
		found, err := t.exists(in.Cmd.Context(), in.Client)
		if err != nil {
			return err
		}
		if !found {
			return NotFound(t.What)
		}
	}
	return nil
}

func (t *Thing) exists(ctx context.Context, c *client.Client) (bool, error) {
	var answer []byte
	err := c.Do(ctx, t.Request, &answer)
	if errors.Is(err, client.ErrNotFound) {
		return false, nil
	}
	if err != nil || t.Member == "" {
		return err == nil, err
	}
	var rows []map[string]any
	list := json.RawMessage(answer)
	if t.Rows != "" {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(answer, &members); err != nil {
			return false, fmt.Errorf("reading the answer: %w", err)
		}
		list = members[t.Rows]
	}
	if err := json.Unmarshal(list, &rows); err != nil {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	for _, row := range rows {
		if row[t.Member] == t.Name {
			return true, nil
		}
	}
	return false, nil
}

// missingError is the failure of a command that names what does not exist.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what + " does not exist" }

// NotFound returns the error about something that does not exist: see UnlessExpected.
func NotFound(what string) error { return &missingError{what} }

func isMissing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

// IfExistsFlag adds --if-exists, which UnlessExpected reads.
func IfExistsFlag(f *pflag.FlagSet) {
	f.Bool("if-exists", false, "succeed, and do nothing, if it does not exist")
}

// UnlessExpected returns an error about something that does not exist, or nil with --if-exists.
func (in *Input) UnlessExpected(err error) error {
	if expected, _ := in.Cmd.Flags().GetBool("if-exists"); expected { // false without the flag
		return nil
	}
	return err
}
