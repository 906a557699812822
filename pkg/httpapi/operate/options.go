package operate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxOption is the largest number of an option. It fits a 32-bit integer of a
	// client; as seconds it is 68 years.
	maxOption = math.MaxInt32
	// maxUnknown is how many unknown options the answer lists.
	maxUnknown = 20
	// maxEdits is the largest edit distance between an unknown option and the
	// option that the warning suggests.
	maxEdits = 3
)

// numbers returns the numeric options by their names on the wire.
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

// flags returns the boolean options by their names on the wire.
func (set *configuration) flags() map[string]*bool {
	o, more := &set.Options, &set.Extensions
	return map[string]*bool{
		"encryptionEnabled": &o.EncryptionEnabled, "retentionEnabled": &o.RetentionEnabled,
		"deadLetterQueue": &o.DeadLetterQueue, "dlqAfterMaxRetries": &o.DLQAfterMaxRetries,
		"deadLetterExpired": &more.DeadLetterExpired,
	}
}

// option stores one option. It drops an unknown option; see
// docs/compatibility.md#configure. null leaves the default.
func (set *configuration) option(name string, value jsontext.Value) (err error) {
	number, flag := set.numbers()[name], set.flags()[name]
	if number == nil && flag == nil {
		if !slices.Contains(set.unknown, name) && len(set.unknown) <= maxUnknown {
			set.unknown = append(set.unknown, name)
		}
		return nil
	}
	if value.Kind() == 'n' {
		return nil
	}
	set.sent[name] = true
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

// optionsJSON are the options of Queen MQ, and each option of Belfry's own that the
// request sent.
type optionsJSON struct {
	queue.Options
	RetryBackoff       *int64 `json:"retryBackoff,omitempty"`
	RetryDelayMax      *int64 `json:"retryDelayMax,omitempty"`
	ExpireAfterSeconds *int64 `json:"expireAfterSeconds,omitempty"`
	DeadLetterExpired  *bool  `json:"deadLetterExpired,omitempty"`
	MaxDeliveries      *int64 `json:"maxDeliveries,omitempty"`
}

// optionsInForce returns the options after the call.
func (set *configuration) optionsInForce() optionsJSON {
	out := optionsJSON{Options: set.Options}
	if set.sent["retryBackoff"] {
		out.RetryBackoff = &set.Extensions.RetryBackoff
	}
	if set.sent["retryDelayMax"] {
		out.RetryDelayMax = &set.Extensions.RetryDelayMax
	}
	if set.sent["expireAfterSeconds"] {
		out.ExpireAfterSeconds = &set.Extensions.ExpireAfterSeconds
	}
	if set.sent["deadLetterExpired"] {
		out.DeadLetterExpired = &set.Extensions.DeadLetterExpired
	}
	if set.sent["maxDeliveries"] {
		out.MaxDeliveries = &set.Extensions.MaxDeliveries
	}
	return out
}

// warnings lists the options that were dropped and the options that have no
// effect.
func (set *configuration) warnings() []string {
	var list []string
	for i, name := range set.unknown {
		if i == maxUnknown {
			list = append(list, "other unknown options were dropped too")
			break
		}
		warning := fmt.Sprintf("options.%s is unknown and was dropped", wire.Clip(name))
		if near := set.nearest(name); near != "" {
			warning += ": did you mean " + near + "?"
		}
		list = append(list, warning)
	}
	o, more := set.Options, set.Extensions
	add := func(when bool, text string) {
		if when {
			list = append(list, text)
		}
	}
	add(set.sent["ttl"] && o.TTL > 0,
		"options.ttl has no effect, so that no client loses messages by a default: set expireAfterSeconds to have messages expire")
	add(set.sent["deadLetterQueue"] && !o.DeadLetterQueue,
		"options.deadLetterQueue false has no effect: messages out of retries are always kept as dead letters")
	add(set.sent["dlqAfterMaxRetries"] && !o.DLQAfterMaxRetries,
		"options.dlqAfterMaxRetries false has no effect: messages out of retries are always kept as dead letters")
	add(o.RetentionSeconds > 0 && !o.RetentionEnabled, "options.retentionSeconds has no effect without retentionEnabled true")
	add(o.CompletedRetentionSeconds > 0 && !o.RetentionEnabled,
		"options.completedRetentionSeconds has no effect without retentionEnabled true")
	add(more.DeadLetterExpired && more.ExpireAfterSeconds == 0, "options.deadLetterExpired has no effect without expireAfterSeconds")
	return list
}

// nearest returns the known option with the most similar name, or "".
func (set *configuration) nearest(name string) string {
	if len(name) > 2*maxEdits+len("completedRetentionSeconds") {
		return "" // longer than every option and its edits
	}
	best, edits := "", maxEdits+1
	known := append(slices.Collect(maps.Keys(set.numbers())), slices.Collect(maps.Keys(set.flags()))...)
	slices.Sort(known)
	for _, option := range known {
		if d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(option)); d < min(edits, len(option)) {
			best, edits = option, d
		}
	}
	return best
}
