package operate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxOption is the largest value of a numeric option. It fits a 32-bit integer of a
	// client. As a number of seconds it is 68 years.
	maxOption = math.MaxInt32
	// maxUnknown is the maximum number of unknown options in the answer.
	maxUnknown = 20
	// maxEdits is the largest edit distance between an unknown option and the
	// option that the warning suggests.
	maxEdits = 3
	// tenantDelimiter is the only option that is a text. maxDelimiter is how many bytes it can have.
	tenantDelimiter = "tenantDelimiter"
	maxDelimiter    = 32
)

// numbers returns the numeric options by their names in the API.
func (set *configuration) numbers() map[string]*int64 {
	o, more := &set.Options, &set.Extensions
	return map[string]*int64{
		"leaseTime": &o.LeaseTime, "retryLimit": &o.RetryLimit, "delayedProcessing": &o.DelayedProcessing,
		"windowBuffer": &o.WindowBuffer, "retentionSeconds": &o.RetentionSeconds,
		"completedRetentionSeconds": &o.CompletedRetentionSeconds, "maxWaitTimeSeconds": &o.MaxWaitTimeSeconds,
		"maxSize": &o.MaxSize, "priority": &o.Priority, "retryDelay": &o.RetryDelay, "ttl": &o.TTL,
		"expireAfterSeconds": &more.ExpireAfterSeconds, "maxDeliveries": &more.MaxDeliveries,
		"retryBackoff": &more.RetryBackoff, "retryDelayMax": &more.RetryDelayMax,
	}
}

// flags returns the boolean options by their names in the API.
func (set *configuration) flags() map[string]*bool {
	o, more := &set.Options, &set.Extensions
	return map[string]*bool{
		"encryptionEnabled": &o.EncryptionEnabled, "retentionEnabled": &o.RetentionEnabled,
		"deadLetterQueue": &o.DeadLetterQueue, "dlqAfterMaxRetries": &o.DLQAfterMaxRetries,
		"deadLetterExpired": &more.DeadLetterExpired,
	}
}

// option sets one option. It only records the name of an unknown option; see
// docs/compatibility.md#configure. For null it keeps the default.
func (set *configuration) option(name string, value jsontext.Value) (err error) {
	number, flag := set.numbers()[name], set.flags()[name]
	if number == nil && flag == nil && name != tenantDelimiter {
		if !slices.Contains(set.unknown, name) && len(set.unknown) <= maxUnknown {
			set.unknown = append(set.unknown, name)
		}
		return nil
	}
	if value.Kind() == 'n' {
		return nil
	}
	set.sent[name] = true
	if name == tenantDelimiter {
		return set.delimiter(value)
	}
	if flag != nil {
		*flag, err = wire.Bool("options."+name, value)
		return err
	}
	n, err := wire.WholeNumber("options."+name, value)
	if err != nil {
		return err
	}
	lowest := 0
	switch name {
	case "priority":
		lowest = -maxOption
	case "retryBackoff":
		lowest = 1
	}
	if n > maxOption || n < int64(lowest) {
		return queue.Invalidf("options.%s is %d: it must be between %d and %d", name, n, lowest, maxOption)
	}
	*number = n
	return nil
}

// delimiter sets the option tenantDelimiter.
func (set *configuration) delimiter(value jsontext.Value) error {
	text, ok := wire.Text(value)
	switch {
	case !ok:
		return queue.Invalidf("options.%s must be a string", tenantDelimiter)
	case len(text) > maxDelimiter:
		return queue.Invalidf("options.%s is %d bytes long: at most %d are allowed", tenantDelimiter, len(text), maxDelimiter)
	}
	set.Extensions.TenantDelimiter = text
	return wire.CheckName("options."+tenantDelimiter, text+"x") // "." is a delimiter, but not a name
}

// optionsInForce returns the options after the call: all options that Queen MQ knows, and the other options that the request
// sent.
func (set *configuration) optionsInForce() api.SetOptions {
	o, more := &set.Options, &set.Extensions
	return api.SetOptions{
		LeaseTime: &o.LeaseTime, RetryLimit: &o.RetryLimit, DelayedProcessing: &o.DelayedProcessing, WindowBuffer: &o.WindowBuffer,
		EncryptionEnabled: &o.EncryptionEnabled, RetentionEnabled: &o.RetentionEnabled, RetentionSeconds: &o.RetentionSeconds,
		CompletedRetentionSeconds: &o.CompletedRetentionSeconds, MaxWaitTimeSeconds: &o.MaxWaitTimeSeconds, MaxSize: &o.MaxSize,
		Priority: new(int(o.Priority)), RetryDelay: &o.RetryDelay, TTL: &o.TTL, DeadLetterQueue: &o.DeadLetterQueue,
		DLQAfterMaxRetries: &o.DLQAfterMaxRetries, RetryBackoff: ifSent(set, "retryBackoff", &more.RetryBackoff),
		RetryDelayMax:      ifSent(set, "retryDelayMax", &more.RetryDelayMax),
		ExpireAfterSeconds: ifSent(set, "expireAfterSeconds", &more.ExpireAfterSeconds),
		DeadLetterExpired:  ifSent(set, "deadLetterExpired", &more.DeadLetterExpired),
		MaxDeliveries:      ifSent(set, "maxDeliveries", &more.MaxDeliveries),
		TenantDelimiter:    ifSent(set, tenantDelimiter, &more.TenantDelimiter),
	}
}

// ifSent returns the value of an option if the request sent it, and otherwise nil.
func ifSent[T any](set *configuration, option string, value *T) *T {
	if !set.sent[option] {
		return nil
	}
	return value
}

// warnings returns warnings about unknown options and options without effect, and the warning more unless it is empty. It
// returns nil if there is no warning.
func (set *configuration) warnings(more string) []string {
	var list []string
	for i, name := range set.unknown {
		if i == maxUnknown {
			list = append(list, "further unknown options were dropped")
			break
		}
		warning := fmt.Sprintf("options.%s is unknown and was dropped", wire.Clip(name))
		if near := set.nearest(name); near != "" {
			warning += ": did you mean " + near + "?"
		}
		list = append(list, warning)
	}
	o, own := set.Options, set.Extensions
	add := func(when bool, text string) {
		if when {
			list = append(list, text)
		}
	}
	add(set.sent["ttl"] && o.TTL > 0,
		"options.ttl has no effect, because clients send it by default and messages would then be deleted: set expireAfterSeconds to make messages expire")
	add(set.sent["deadLetterQueue"] && !o.DeadLetterQueue,
		"options.deadLetterQueue false has no effect: a message without remaining retries always becomes a dead letter")
	add(set.sent["dlqAfterMaxRetries"] && !o.DLQAfterMaxRetries,
		"options.dlqAfterMaxRetries false has no effect: a message without remaining retries always becomes a dead letter")
	add(o.RetentionSeconds > 0 && !o.RetentionEnabled, "options.retentionSeconds has no effect without retentionEnabled true")
	add(o.CompletedRetentionSeconds > 0 && !o.RetentionEnabled,
		"options.completedRetentionSeconds has no effect without retentionEnabled true")
	add(own.DeadLetterExpired && own.ExpireAfterSeconds == 0, "options.deadLetterExpired has no effect without expireAfterSeconds")
	add(more != "", more)
	return list
}

// nearest returns the known option with the most similar name, or "".
func (set *configuration) nearest(name string) string {
	if len(name) > 2*maxEdits+len("completedRetentionSeconds") {
		return "" // longer than every option plus maxEdits
	}
	best, edits := "", maxEdits+1
	known := append(slices.Collect(maps.Keys(set.numbers())), slices.Collect(maps.Keys(set.flags()))...)
	known = append(known, tenantDelimiter)
	slices.Sort(known)
	for _, option := range known {
		if d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(option)); d < min(edits, len(option)) {
			best, edits = option, d
		}
	}
	return best
}
