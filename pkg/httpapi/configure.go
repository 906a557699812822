package httpapi

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// configure serves POST /api/v1/configure (section 5): a full replacement of
// options and tags.
func (s *Server) configure(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	set, err := parseConfigure(body, s.deps.Defaults.Options())
	if err != nil {
		return err
	}
	made, err := s.deps.Catalog.Configure(c.Request().Context(), set.Settings)
	if err != nil {
		return err
	}
	options, err := set.echo()
	if err != nil {
		return fmt.Errorf("encoding options: %w", err)
	}
	b := append([]byte(`{"configured":true,"queueId":`), appendID(nil, made.QueueID)...)
	b = append(b, `,"partitionId":`...)
	b = appendID(b, made.PartitionID)
	b = append(b, `,"queue":`...)
	b = appendString(b, set.Queue)
	b = append(b, `,"namespace":`...)
	b = appendString(b, set.Namespace)
	b = append(b, `,"task":`...)
	b = appendString(b, set.Task)
	b = append(b, `,"options":`...)
	b = append(b, options...)
	if warnings := set.warnings(); len(warnings) > 0 {
		b = append(b, `,"warnings":[`...)
		for i, warning := range warnings {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, warning)
		}
		b = append(b, ']')
	}
	return answer(c, http.StatusOK, append(b, '}'))
}

// configuration is the body of a configure call once it was read.
type configuration struct {
	catalog.Settings
	// sent are the known options that were, and unknown the others, in order.
	sent    map[string]bool
	unknown []string
}

func parseConfigure(body []byte, defaults queue.Options) (configuration, error) {
	set := configuration{Settings: catalog.Settings{Options: defaults}}
	var hasQueue bool
	err := object(body, func(name string, value jsontext.Value) error {
		switch name {
		case "queue":
			set.Queue, hasQueue = text(value)
		case "namespace":
			set.Namespace, _ = text(value)
		case "task":
			set.Task, _ = text(value)
		case "options":
			set.Options, set.Extensions = defaults, queue.Extensions{}
			set.sent, set.unknown = map[string]bool{}, nil
			isObject, err := fields(value, set.option)
			if err == nil && !isObject && value.Kind() != 'n' {
				err = queue.Invalidf("options must be an object, not %s", clip(string(value)))
			}
			return err
		}
		return nil
	})
	if err != nil {
		return set, err
	}
	if !hasQueue {
		return set, queue.Invalidf("queue is required")
	}
	for _, name := range []struct{ field, value string }{
		{"queue", set.Queue}, {"namespace", set.Namespace}, {"task", set.Task},
	} {
		if err := checkName(name.field, name.value); err != nil {
			return set, err
		}
	}
	if set.sent["retryDelay"] {
		set.Extensions.RetryBackoff = set.Options.RetryDelay
	}
	return set, nil
}

// deleteQueue serves DELETE /api/v1/resources/queues/:queue.
func (s *Server) deleteQueue(c echo.Context) error {
	name, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	existed, err := s.deps.Catalog.Delete(c.Request().Context(), name)
	if err != nil {
		return err
	}
	b := appendString([]byte(`{"deleted":true,"queue":`), name)
	return answer(c, http.StatusOK, fmt.Appendf(b, `,"existed":%t}`, existed))
}
