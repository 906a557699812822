package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Options are the names of the options of a queue. A server drops other ones.
var Options = []string{
	"completedRetentionSeconds", "deadLetterExpired", "deadLetterQueue", "delayedProcessing", "dlqAfterMaxRetries", "encryptionEnabled",
	"expireAfterSeconds", "leaseTime", "maxDeliveries", "maxSize", "maxWaitTimeSeconds", "priority", "retentionEnabled", "retentionSeconds",
	"retryDelay", "retryLimit", "ttl", "windowBuffer",
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
