package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// option is an option of a queue with its value.
type option struct {
	Name, Meaning, Unit string
	// Flag says that it is true or false.
	Flag  bool
	Value string
	// Set says that the value is not the usual one for "off".
	Set bool
}

// On reports whether a flag is true.
func (o option) On() bool { return o.Value == "true" }

// known are the options that do something, in the order of the form.
var known = []option{
	{Name: "leaseTime", Meaning: "How long a delivery may take", Unit: "s"},
	{Name: "retryLimit", Meaning: "Deliveries after the first one, before a failed message becomes a dead letter"},
	{Name: "retryDelay", Meaning: "Pause of a partition after a failure; it doubles with each", Unit: "ms"},
	{Name: "maxDeliveries", Meaning: "Deliveries without an acknowledgment before a dead letter; 0: no limit"},
	{Name: "delayedProcessing", Meaning: "Earliest delivery after the push", Unit: "s"},
	{Name: "windowBuffer", Meaning: "A partition delivers when it received no push for this long", Unit: "s"},
	{Name: "maxSize", Meaning: "Most waiting messages; 0: no limit"},
	{Name: "priority", Meaning: "Order of queues in a pop by namespace or task"},
	{Name: "expireAfterSeconds", Meaning: "Older messages are not delivered; 0: off", Unit: "s"},
	{Name: "deadLetterExpired", Meaning: "Expired messages become dead letters", Flag: true},
	{Name: "retentionEnabled", Meaning: "The next two options apply", Flag: true},
	{Name: "retentionSeconds", Meaning: "Older messages are deleted, also unconsumed ones; 0: off", Unit: "s"},
	{Name: "completedRetentionSeconds", Meaning: "Older messages that every group has consumed are deleted; 0: off", Unit: "s"},
	{Name: "maxWaitTimeSeconds", Meaning: "Older messages that a group has not consumed are deleted; 0: off", Unit: "s"},
	{Name: "encryptionEnabled", Meaning: "Payloads are encrypted at rest", Flag: true},
}

// optionsOf returns the known options with the values of a queue.
func optionsOf(values map[string]any) []option {
	list := slices.Clone(known)
	for i := range list {
		if value, has := values[list[i].Name]; has && value != nil {
			list[i].Value = fmt.Sprint(value)
			if n, isNumber := value.(float64); isNumber {
				list[i].Value = strconv.FormatInt(int64(n), 10)
			}
		}
		list[i].Set = list[i].Value != "" && list[i].Value != "0" && list[i].Value != "false"
	}
	return list
}

// Change is an option that an edit changes.
type Change struct{ Name, From, To string }

type optionsData struct {
	Name    string
	Exists  bool
	Options []option
	// Namespace and Task are the values in the form.
	Namespace, Task string
	// Changes are what the form changes, once it was sent for a preview. Body is the request that does it.
	Preview bool
	Changes []Change
	Body    string
}

// options is the form of a queue's options. With preview=1 it shows what the values of the query change.
func options(r *page.Request) (*page.Content, error) {
	name := r.Query.Get("q")
	data := &optionsData{Name: name, Options: slices.Clone(known)}
	kept := map[string]any{}
	if name != "" {
		status, err := source.Read[source.QueueStatus](r.Ctx, r.Client, r.Caller, "/api/v1/status/queues/"+page.Esc(name)+"?limit=0&countLimit=0")
		switch {
		case source.IsStatus(err, 404): // the form creates it
		case err != nil:
			return nil, err
		default:
			data.Exists, data.Options, kept = true, optionsOf(status.Queue.Options), maps.Clone(status.Queue.Options)
			data.Namespace, data.Task = status.Queue.Namespace, status.Queue.Task
		}
	}
	content := &page.Content{Title: "Options of " + name, Data: data}
	if name == "" {
		content.Title = "New queue"
	}
	if data.Preview = r.Query.Get("preview") != "" && name != ""; !data.Preview {
		return content, nil
	}
	data.compare(r, kept)
	body, err := json.Marshal(map[string]any{"queue": name, "namespace": data.Namespace, "task": data.Task, "options": kept})
	if err != nil {
		return nil, fmt.Errorf("encoding options: %w", err)
	}
	data.Body = string(body)
	cli := []string{"queue", "configure", name}
	for _, c := range data.Changes {
		cli = append(cli, "--option", c.Name+"="+c.To)
	}
	content.Commands = []page.Command{r.Command("Do the same", "POST", "/api/v1/configure", data.Body, cli)}
	return content, nil
}

// compare sets the changes, and the options to send in kept.
func (d *optionsData) compare(r *page.Request, kept map[string]any) {
	// The form names every option but flags that are false. Another link may name only some.
	whole := r.Query.Has("whole")
	for i := range d.Options {
		o := &d.Options[i]
		if !whole && !r.Query.Has(o.Name) {
			continue
		}
		value := r.Query.Get(o.Name)
		if o.Flag && value == "" {
			value = "false"
		}
		before := o.Value
		if o.Flag && before == "" {
			before = "false"
		}
		o.Value = value
		if value == before {
			continue
		}
		d.Changes = append(d.Changes, Change{o.Name, before, value})
		number, err := strconv.ParseInt(value, 10, 64)
		switch {
		case value == "":
			delete(kept, o.Name) // it gets its default
		case o.Flag:
			kept[o.Name] = value == "true"
		case err == nil:
			kept[o.Name] = number
		default:
			kept[o.Name] = value // the API refuses it and says why
		}
	}
	for _, tag := range []struct {
		name string
		to   *string
	}{{"namespace", &d.Namespace}, {"task", &d.Task}} {
		if value := r.Query.Get(tag.name); r.Query.Has(tag.name) && value != *tag.to {
			d.Changes = append(d.Changes, Change{tag.name, *tag.to, value})
			*tag.to = value
		}
	}
}
