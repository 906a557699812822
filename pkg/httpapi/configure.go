package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxOption bounds the numbers among the options: a lease of 68 years in
// seconds, and what fits a client's 32-bit integer.
const maxOption = math.MaxInt32

// configure serves POST /api/v1/configure (section 5): a full replacement of
// options and tags.
func (s *Server) configure(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	settings, err := parseConfigure(body, s.deps.Defaults.Options())
	if err != nil {
		return err
	}
	made, err := s.deps.Catalog.Configure(c.Request().Context(), settings)
	if err != nil {
		return err
	}
	options, err := json.Marshal(settings.Options)
	if err != nil {
		return fmt.Errorf("encoding options: %w", err)
	}
	b := append([]byte(`{"configured":true,"queueId":`), appendID(nil, made.QueueID)...)
	b = append(b, `,"partitionId":`...)
	b = appendID(b, made.PartitionID)
	b = append(b, `,"queue":`...)
	b = appendString(b, settings.Queue)
	b = append(b, `,"namespace":`...)
	b = appendString(b, settings.Namespace)
	b = append(b, `,"task":`...)
	b = appendString(b, settings.Task)
	b = append(b, `,"options":`...)
	b = append(b, options...)
	return answer(c, http.StatusOK, append(b, '}'))
}

func parseConfigure(body []byte, defaults queue.Options) (catalog.Settings, error) {
	set := catalog.Settings{Options: defaults}
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
			set.Options = defaults
			isObject, err := fields(value, func(option string, value jsontext.Value) error {
				return setOption(&set.Options, option, value)
			})
			if err == nil && !isObject && value.Kind() != 'n' {
				err = queue.Invalidf("options must be an object")
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
	return set, nil
}

// setOption stores one option. An unknown one is dropped, as the contract says;
// null leaves the default.
func setOption(o *queue.Options, name string, value jsontext.Value) error {
	numbers := map[string]*int64{
		"leaseTime": &o.LeaseTime, "retryLimit": &o.RetryLimit, "delayedProcessing": &o.DelayedProcessing,
		"windowBuffer": &o.WindowBuffer, "retentionSeconds": &o.RetentionSeconds,
		"completedRetentionSeconds": &o.CompletedRetentionSeconds, "maxWaitTimeSeconds": &o.MaxWaitTimeSeconds,
		"maxSize": &o.MaxSize, "priority": &o.Priority, "retryDelay": &o.RetryDelay, "ttl": &o.TTL,
	}
	flags := map[string]*bool{
		"encryptionEnabled": &o.EncryptionEnabled, "retentionEnabled": &o.RetentionEnabled,
		"deadLetterQueue": &o.DeadLetterQueue, "dlqAfterMaxRetries": &o.DLQAfterMaxRetries,
	}
	if value.Kind() == 'n' {
		return nil
	}
	if number, ok := numbers[name]; ok {
		n, err := wholeNumber("options."+name, value)
		if err != nil {
			return err
		}
		if n > maxOption || n < 0 && name != "priority" || n < -maxOption {
			return queue.Invalidf("options.%s is %d: it must be between 0 and %d", name, n, maxOption)
		}
		*number = n
	}
	if flag, ok := flags[name]; ok {
		switch value.Kind() {
		case 't':
			*flag = true
		case 'f':
			*flag = false
		default:
			return queue.Invalidf("options.%s must be true or false, not %s", name, clip(string(value)))
		}
	}
	return nil
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
