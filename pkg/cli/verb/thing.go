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

// Thing is an object of the server that a command line names.
type Thing struct {
	// What is the kind and the name of the object, for errors.
	What string
	// Request reads the object. If the object does not exist, the server answers 404, or a list without the object.
	Request client.Request
	// Rows, Member and Name find the object in a list: the row at Rows whose Member is Name. If Member is "", Request
	// alone decides.
	Rows, Member, Name string
}

// QueueNamed returns the queue with a name.
func QueueNamed(name string) Thing {
	return Thing{What: fmt.Sprintf("the queue %q", name), Request: request.Get("/api/v1/resources/queues/"+url.PathEscape(name)+"/groups", url.Values{"limit": {"1"}})}
}

// GroupNamed returns a group of a queue. If queueName is "", it returns a group of any queue.
func GroupNamed(name, queueName string) Thing {
	if queueName == "" {
		return Thing{What: fmt.Sprintf("the group %q", name), Request: request.Get("/api/v1/consumer-groups", nil), Member: "name", Name: name}
	}
	return Thing{
		What:    fmt.Sprintf("the group %q of the queue %q", name, queueName),
		Request: request.Get("/api/v1/consumer-groups/"+url.PathEscape(name)+"/queues/"+url.PathEscape(queueName), nil),
	}
}

// Missing returns an error for the first object that does not exist. isMissing detects this error.
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

// missingError is the error for a named object that does not exist.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what + " does not exist" }

// NotFound returns the error for an object that does not exist. UnlessExpected handles it.
func NotFound(what string) error { return &missingError{what} }

func isMissing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

// IfExistsFlag adds the flag --if-exists, which UnlessExpected reads.
func IfExistsFlag(f *pflag.FlagSet) {
	f.Bool("if-exists", false, "do nothing and succeed if the object does not exist")
}

// UnlessExpected returns err, which is about an object that does not exist. With --if-exists it returns nil.
func (in *Input) UnlessExpected(err error) error {
	if expected, _ := in.Cmd.Flags().GetBool("if-exists"); expected { // false if the command has no such flag
		return nil
	}
	return err
}
