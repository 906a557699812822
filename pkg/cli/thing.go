package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/client"
)

// thing is something that a command line names.
type thing struct {
	// what is its kind and name.
	what string
	// request asks for it. The answer is 404 without it.
	request client.Request
	// rows, member and name find it in a list that the server answers. Without member the request alone does.
	rows, member, name string
}

func queueNamed(name string) thing {
	return thing{what: fmt.Sprintf("the queue %q", name), request: get("/api/v1/resources/queues/"+url.PathEscape(name)+"/groups", url.Values{"limit": {"1"}})}
}

// groupNamed is a group of a queue, or of any queue for "".
func groupNamed(name, queueName string) thing {
	if queueName == "" {
		return thing{what: fmt.Sprintf("the group %q", name), request: get("/api/v1/consumer-groups", nil), member: "name", name: name}
	}
	return thing{
		what:    fmt.Sprintf("the group %q of the queue %q", name, queueName),
		request: get("/api/v1/consumer-groups/"+url.PathEscape(name)+"/queues/"+url.PathEscape(queueName), nil),
	}
}

// missing returns an error for the first of the things that does not exist: see isMissing.
func (in *input) missing(all []thing) error {
	for _, t := range all {
		found, err := t.exists(in.cmd.Context(), in.client)
		if err != nil {
			return err
		}
		if !found {
			return notFound(t.what)
		}
	}
	return nil
}

func (t *thing) exists(ctx context.Context, c *client.Client) (bool, error) {
	var answer []byte
	err := c.Do(ctx, t.request, &answer)
	if errors.Is(err, client.ErrNotFound) {
		return false, nil
	}
	if err != nil || t.member == "" {
		return err == nil, err
	}
	var rows []map[string]any
	list := json.RawMessage(answer)
	if t.rows != "" {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(answer, &members); err != nil {
			return false, fmt.Errorf("reading the answer: %w", err)
		}
		list = members[t.rows]
	}
	if err := json.Unmarshal(list, &rows); err != nil {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	for _, row := range rows {
		if row[t.member] == t.name {
			return true, nil
		}
	}
	return false, nil
}

// missingError is the failure of a command that names what does not exist.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what + " does not exist" }

func notFound(what string) error { return &missingError{what} }

func isMissing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

func ifExistsFlag(f *pflag.FlagSet) {
	f.Bool("if-exists", false, "succeed, and do nothing, if it does not exist")
}

// unlessExpected returns an error about something that does not exist, or nil with --if-exists.
func (in *input) unlessExpected(err error) error {
	if expected, _ := in.cmd.Flags().GetBool("if-exists"); expected { // false without the flag
		return nil
	}
	return err
}
