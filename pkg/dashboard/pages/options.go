package pages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/changes"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// option is an option of a queue with its value.
type option struct {
	Name, Meaning, Unit string
	// Flag is true for an option with the value true or false.
	Flag bool
	// Text is true for an option that is a text.
	Text  bool
	Value string
	// Set is true if the value is not empty, 0 or false.
	Set bool
}

// On reports whether a flag is true.
func (o option) On() bool { return o.Value == "true" }

// known are the options that have an effect, in the order of the form.
var known = []option{
	{Name: "leaseTime", Meaning: "How long a delivery may take", Unit: "s"},
	{Name: "retryLimit", Meaning: "Deliveries after the first one, before a failed message becomes a dead letter"},
	{Name: "retryDelay", Meaning: "Pause of a partition after a failure; 0: none", Unit: "ms"},
	{Name: "retryBackoff", Meaning: "Factor by which each further failure multiplies the pause"},
	{Name: "retryDelayMax", Meaning: "Longest pause", Unit: "ms"},
	{Name: "maxDeliveries", Meaning: "Deliveries without an acknowledgment before a dead letter; 0: no limit"},
	{Name: "delayedProcessing", Meaning: "Earliest delivery after the push", Unit: "s"},
	{Name: "windowBuffer", Meaning: "A partition delivers after this time without a push", Unit: "s"},
	{Name: "maxSize", Meaning: "Most waiting messages; 0: no limit"},
	{Name: "priority", Meaning: "Order of queues in a pop by namespace or task"},
	{Name: "expireAfterSeconds", Meaning: "Older messages are not delivered; 0: off", Unit: "s"},
	{Name: "deadLetterExpired", Meaning: "Expired messages become dead letters", Flag: true},
	{Name: "retentionEnabled", Meaning: "The next two options apply", Flag: true},
	{Name: "retentionSeconds", Meaning: "Older messages are deleted, also unconsumed ones; 0: off", Unit: "s"},
	{Name: "completedRetentionSeconds", Meaning: "Older messages that every group has consumed are deleted; 0: off", Unit: "s"},
	{Name: "maxWaitTimeSeconds", Meaning: "Older messages that a group has not consumed are deleted; 0: off", Unit: "s"},
	{Name: "tenantDelimiter", Meaning: "The name of a new partition up to this text is its tenant; empty: off", Text: true},
	{Name: "encryptionEnabled", Meaning: "Payloads are encrypted at rest", Flag: true},
}

// valuesOf returns the options of a queue by their names.
func valuesOf(options *api.QueueOptions) map[string]any {
	values := map[string]any{}
	encoded, _ := json.Marshal(options) // cannot fail: the options are numbers and flags
	_ = json.Unmarshal(encoded, &values)
	return values
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
	Name string
	// Exists is true if the queue exists. Taken is true if the queue exists although the form is for a new queue.
	Exists, Taken bool
	Options       []option
	// Namespace and Task are the values in the form.
	Namespace, Task string
	// Preview is true if the form was sent for a preview. Then Changes has the changes of the form, and Sent has the
	// same in JSON for the action.
	Preview bool
	Changes []Change
	Sent    string
	// Refused has the reasons why the server would refuse the changes, by the name of the setting.
	Refused map[string]string
}

// options shows the form of a queue's options. With preview=1 it shows the changes that the values of the query make.
func options(r *page.Request) (*page.Content, error) {
	name := r.Query.Get("q")
	data := &optionsData{Name: name, Options: slices.Clone(known)}
	content := &page.Content{Title: "Options of " + name, Data: data}
	var status *api.QueueStatus
	if name == "" {
		content.Title = "New queue"
	} else {
		found, err := source.Read[api.QueueStatus](r.Ctx, r.Client, r.Caller, "/api/v1/status/queues/"+page.Esc(name)+"?limit=0&countLimit=0")
		switch {
		case source.IsStatus(err, http.StatusNotFound): // the form creates the queue
		case err != nil:
			return nil, err
		default:
			status, data.Exists, data.Options = found, true, optionsOf(valuesOf(&found.Queue.Options))
			data.Namespace, data.Task = found.Queue.Namespace, found.Queue.Task
		}
	}
	data.Taken = data.Exists && r.Query.Get("new") != ""
	if data.Preview = r.Query.Get("preview") != "" && name != "" && !data.Taken; !data.Preview {
		return content, nil
	}
	data.compare(r)
	sent, err := json.Marshal(data.Changes)
	if err != nil {
		return nil, fmt.Errorf("encoding options: %w", err)
	}
	data.Sent = string(sent)
	body, err := Configuration(name, status, data.Changes)
	if err != nil {
		return nil, err
	}
	data.Refused = changes.Refused(r, body)
	request, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding options: %w", err)
	}
	content.Commands = []page.Command{r.Command("Do the same", http.MethodPost, "/api/v1/configure", string(request), configureWords(name, data.Changes))}
	return content, nil
}

// configureWords returns the words of the belfry command for changes. It returns nil if a change resets an option to its
// default, because the command cannot do that.
func configureWords(name string, edits []Change) []string {
	words := []string{"queue", "configure", name}
	for _, c := range edits {
		switch {
		case c.To == "":
			return nil
		case c.Name == "namespace" || c.Name == "task":
			words = append(words, "--"+c.Name, c.To)
		default:
			words = append(words, "--option", c.Name+"="+c.To)
		}
	}
	return words
}

// compare sets Changes.
func (d *optionsData) compare(r *page.Request) {
	// The query of the form has every option except unticked flags. The query of another link may have only some.
	whole := r.Query.Has("whole")
	for i := range d.Options {
		o := &d.Options[i]
		if !whole && !r.Query.Has(o.Name) {
			continue
		}
		before := o.shown()
		o.Value = r.Query.Get(o.Name)
		if after := o.shown(); after != before {
			d.Changes = append(d.Changes, Change{o.Name, before, after})
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

// shown returns the displayed value. A flag without a value is false.
func (o option) shown() string {
	if o.Flag && o.Value == "" {
		return "false"
	}
	return o.Value
}

// Configuration returns the body of POST /api/v1/configure that makes the changes to a queue. queue is nil if the queue
// does not exist yet. An error means that a value to change is no longer the value of the preview.
func Configuration(name string, queue *api.QueueStatus, edits []Change) (map[string]any, error) {
	namespace, task, kept := "", "", map[string]any{}
	if queue != nil {
		namespace, task, kept = queue.Queue.Namespace, queue.Queue.Task, valuesOf(&queue.Queue.Options)
	}
	now := map[string]option{"namespace": {Value: namespace}, "task": {Value: task}}
	for _, o := range optionsOf(kept) {
		now[o.Name] = o
	}
	for _, c := range edits {
		o, isKnown := now[c.Name]
		if !isKnown || o.shown() != c.From {
			return nil, fmt.Errorf("%s was changed to %q meanwhile: check the changes again", c.Name, o.shown())
		}
		number, err := strconv.ParseInt(c.To, 10, 64)
		switch {
		case c.Name == "namespace":
			namespace = c.To
		case c.Name == "task":
			task = c.To
		case c.To == "":
			delete(kept, c.Name) // the option gets its default
		case o.Flag:
			kept[c.Name] = c.To == "true"
		case err == nil && !o.Text:
			kept[c.Name] = number
		default:
			kept[c.Name] = c.To // the API refuses the value with a reason
		}
	}
	return map[string]any{"queue": name, "namespace": namespace, "task": task, "options": kept}, nil
}
