package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Options are the names of the options of a queue. The server ignores other names.
var Options = []string{
	"completedRetentionSeconds", "deadLetterExpired", "deadLetterQueue", "delayedProcessing", "dlqAfterMaxRetries", "encryptionEnabled",
	"expireAfterSeconds", "leaseTime", "maxDeliveries", "maxSize", "maxWaitTimeSeconds", "priority", "retentionEnabled", "retentionSeconds",
	"retryBackoff", "retryDelay", "retryDelayMax", "retryLimit", "tenantDelimiter", "ttl", "windowBuffer",
}

// CheckOption returns an error for an unknown option. It names the option with the most similar name.
func CheckOption(name string) error {
	if slices.Contains(Options, name) {
		return nil
	}
	nearest := slices.MinFunc(Options, func(a, b string) int { return distance(name, a) - distance(name, b) })
	return fmt.Errorf("there is no option %q: did you mean %s?", name, nearest)
}

func distance(a, b string) int {
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}

// ReadOptions returns the options of a JSON object and of pairs NAME=VALUE. The object may be empty. A value that is
// not JSON is a string. A pair overrides a member of the object.
func ReadOptions(object string, pairs []string) (map[string]any, error) {
	options := map[string]any{}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &options); err != nil {
			return nil, fmt.Errorf("--options must be a JSON object: %w", err)
		}
		if options == nil {
			return nil, errors.New("--options must be a JSON object, not null")
		}
	}
	for _, pair := range pairs {
		name, text, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--option is %q: it must be NAME=VALUE", pair)
		}
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		options[name] = value
	}
	for name := range options {
		if err := CheckOption(name); err != nil {
			return nil, err
		}
	}
	return options, nil
}
