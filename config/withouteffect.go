package config

import (
	"slices"
	"strings"
)

// withoutEffect lists the variables of Queen MQ that Belfry accepts and ignores. A name with * at its end means
// all names with this prefix.
var withoutEffect = []string{
	"NUM_WORKERS", "WORKER_ID", "WEBAPP_ROOT", "PG_SSL_REJECT_UNAUTHORIZED", "SIDECAR_*", "DB_CONNECTION_TIMEOUT", "DB_STATEMENT_TIMEOUT",
	"DB_LOCK_TIMEOUT", "DB_IDLE_TIMEOUT", "DB_TCP_USER_TIMEOUT_MS", "DB_KEEPALIVES_*", "LIBQUEEN_*", "POP_WAIT_*", "QUEEN_PUSH_*", "QUEEN_POP_*",
	"QUEEN_ACK_*", "QUEEN_TRANSACTION_*", "QUEEN_RENEW_LEASE_*", "QUEEN_CUSTOM_*", "QUEEN_CONCURRENCY_MODE", "QUEEN_VEGAS_*",
	"STATS_INTERVAL_MS", "STATS_RECONCILE_INTERVAL_MS", "PARTITION_LOOKUP_RECONCILE_*", "METRICS_SAMPLE_INTERVAL_MS", "METRICS_AGGREGATE_INTERVAL_S",
	"FILE_BUFFER_FLUSH_MS", "FILE_BUFFER_MAX_BATCH", "FILE_BUFFER_EVENTS_PER_FILE", "QUEEN_UDP_*", "QUEEN_SYNC_*", "QUEEN_CACHE_*", "RESPONSE_TIMER_INTERVAL_MS", "RESPONSE_BATCH_SIZE", "RESPONSE_BATCH_MAX",
}

// ignored returns the variables that are set and are among withoutEffect, sorted.
func (l *loader) ignored() []string {
	var found []string
	for name, value := range l.env {
		if value != "" && slices.ContainsFunc(withoutEffect, func(pattern string) bool {
			prefix, isPrefix := strings.CutSuffix(pattern, "*")
			return name == pattern || isPrefix && strings.HasPrefix(name, prefix)
		}) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// Ignored returns the variables of Queen MQ that are set and have no effect here, sorted.
func (c Config) Ignored() []string { return c.ignored }

// Unknown returns the variables with the prefix BELFRY_ that are set and do not resemble a setting. If a variable
// resembles a setting, Load returns an error instead.
func (c Config) Unknown() []string { return c.unknown }
