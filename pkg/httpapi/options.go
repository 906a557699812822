package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxOption bounds the numbers among the options: a lease of 68 years in
	// seconds, and what fits a client's 32-bit integer.
	maxOption = math.MaxInt32
	// maxUnknown bounds how many unknown options are listed.
	maxUnknown = 20
	// maxEdits is how far a name may be from the one that is suggested.
	maxEdits = 3
)

// numbers and flags are the options by their names on the wire.
func (set *configuration) numbers() map[string]*int64 {
	o, more := &set.Options, &set.Extensions
	return map[string]*int64{
		"leaseTime": &o.LeaseTime, "retryLimit": &o.RetryLimit, "delayedProcessing": &o.DelayedProcessing,
		"windowBuffer": &o.WindowBuffer, "retentionSeconds": &o.RetentionSeconds,
		"completedRetentionSeconds": &o.CompletedRetentionSeconds, "maxWaitTimeSeconds": &o.MaxWaitTimeSeconds,
		"maxSize": &o.MaxSize, "priority": &o.Priority, "retryDelay": &o.RetryDelay, "ttl": &o.TTL,
		"expireAfterSeconds": &more.ExpireAfterSeconds, "maxDeliveries": &more.MaxDeliveries,
	}
}

func (set *configuration) flags() map[string]*bool {
	o, more := &set.Options, &set.Extensions
	return map[string]*bool{
		"encryptionEnabled": &o.EncryptionEnabled, "retentionEnabled": &o.RetentionEnabled,
		"deadLetterQueue": &o.DeadLetterQueue, "dlqAfterMaxRetries": &o.DLQAfterMaxRetries,
		"deadLetterExpired": &more.DeadLetterExpired,
	}
}

// option stores one option. An unknown one is dropped, as the contract says; null
// leaves the default.
func (set *configuration) option(name string, value jsontext.Value) error {
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
		if value.Kind() != 't' && value.Kind() != 'f' {
			return queue.Invalidf("options.%s must be true or false, not %s", name, clip(string(value)))
		}
		*flag = value.Kind() == 't'
		return nil
	}
	n, err := wholeNumber("options."+name, value)
	if err != nil {
		return err
	}
	lowest := 0
	if name == "priority" {
		lowest = -maxOption
	}
	if n > maxOption || n < int64(lowest) {
		return queue.Invalidf("options.%s is %d: it must be between %d and %d", name, n, lowest, maxOption)
	}
	*number = n
	return nil
}

// echo returns the options in force: the fifteen of the contract, and those of
// Belfry's own that were sent.
func (set *configuration) echo() ([]byte, error) {
	b, err := json.Marshal(set.Options)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	if set.sent["expireAfterSeconds"] {
		b = fmt.Appendf(b, `,"expireAfterSeconds":%d`, set.Extensions.ExpireAfterSeconds)
	}
	if set.sent["deadLetterExpired"] {
		b = fmt.Appendf(b, `,"deadLetterExpired":%t`, set.Extensions.DeadLetterExpired)
	}
	if set.sent["maxDeliveries"] {
		b = fmt.Appendf(b, `,"maxDeliveries":%d`, set.Extensions.MaxDeliveries)
	}
	return append(b, '}'), nil
}

// warnings tells the caller what was dropped, and what has no effect although
// whoever sent it seems to expect one.
func (set *configuration) warnings() []string {
	var list []string
	for i, name := range set.unknown {
		if i == maxUnknown {
			list = append(list, "other unknown options were dropped too")
			break
		}
		warning := fmt.Sprintf("options.%s is unknown and was dropped", clip(name))
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

// nearest returns the option whose name is meant, or "".
func (set *configuration) nearest(name string) string {
	if len(name) > 2*maxEdits+len("completedRetentionSeconds") {
		return "" // nothing is that long
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
