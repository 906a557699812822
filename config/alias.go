package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// alias maps a variable of Queen MQ to a key.
type alias struct {
	key string
	// names lists the variables, the preferred one first.
	names []string
	// unit is ms or s if the value is a whole number without a unit.
	unit string
}

var unitNames = map[string]string{"ms": "milliseconds", "s": "seconds"}

var aliases = []alias{
	{key: "database.pool_size", names: []string{"DB_POOL_SIZE"}},
	{key: "dispatch.max_intentions", names: []string{"MAX_INTENTIONS"}},
	{
		key:   "dispatch.poll_interval",
		names: []string{"POLL_INTERVAL_MS", "POLL_WORKER_INTERVAL", "POLL_DB_INTERVAL"},
		unit:  "ms",
	},
	{key: "dispatch.max_poll_interval", names: []string{"QUEUE_MAX_POLL_INTERVAL"}, unit: "ms"},
	{key: "dispatch.poll_workers", names: []string{"POLL_WORKER_COUNT"}},
	{key: "dispatch.backoff_threshold", names: []string{"QUEUE_BACKOFF_THRESHOLD"}},
	{key: "dispatch.backoff_multiplier", names: []string{"QUEUE_BACKOFF_MULTIPLIER"}},
	{key: "dispatch.backoff_cleanup", names: []string{"QUEUE_BACKOFF_CLEANUP_THRESHOLD"}, unit: "s"},
	{key: "dispatch.use_priority_dispatch", names: []string{"USE_PRIORITY_DISPATCH"}},
	{key: "smart_poll.preflight_timeout", names: []string{"SMART_POLL_PREFLIGHT_TIMEOUT"}, unit: "ms"},
	{key: "smart_poll.max_intentions", names: []string{"SMART_POLL_MAX_INTENTIONS"}},
	{key: "smart_poll.min_interval", names: []string{"SMART_POLL_MIN_INTERVAL"}, unit: "ms"},
	{key: "defaults.pop_timeout", names: []string{"DEFAULT_TIMEOUT"}, unit: "ms"},
	{key: "defaults.pop_batch_size", names: []string{"DEFAULT_BATCH_SIZE"}},
	{key: "defaults.subscription_mode", names: []string{"DEFAULT_SUBSCRIPTION_MODE"}},
	{key: "sweep.retention_interval", names: []string{"RETENTION_INTERVAL"}, unit: "ms"},
	{key: "sweep.retention_batch_size", names: []string{"RETENTION_BATCH_SIZE"}},
	{key: "sweep.eviction_interval", names: []string{"EVICTION_INTERVAL"}, unit: "ms"},
	{key: "sweep.eviction_batch_size", names: []string{"EVICTION_BATCH_SIZE"}},
	{key: "sweep.partition_cleanup_days", names: []string{"PARTITION_CLEANUP_DAYS"}},
	{key: "encryption.key", names: []string{"QUEEN_ENCRYPTION_KEY"}},
	{key: "log.level", names: []string{"LOG_LEVEL"}},
}

// fromAliases reads the variables of Queen MQ. It skips every key for which isSet is true,
// also if its variables have mistakes: they may belong to another program.
func (l *loader) fromAliases(isSet func(key string) bool) map[string]setting {
	layer := map[string]setting{}
	for _, a := range aliases {
		if isSet(a.key) {
			continue
		}
		if s, ok := l.fromAlias(a); ok {
			layer[a.key] = s
		}
	}
	if !isSet("database.url") {
		if s, ok := l.databaseURL(); ok {
			layer["database.url"] = s
		}
	}
	if !isSet("http.addr") {
		if s, ok := l.httpAddr(); ok {
			layer["http.addr"] = s
		}
	}
	return layer
}

func (l *loader) fromAlias(a alias) (setting, bool) {
	for _, name := range a.names {
		text := l.env[name]
		if text == "" {
			continue
		}
		if a.unit != "" {
			if _, err := strconv.ParseInt(text, 10, 32); err != nil {
				l.fail(fmt.Errorf("%s is %q (env %s): it must be a whole number of %s", a.key, text, name, unitNames[a.unit]))
				return setting{}, false
			}
			text += a.unit
		}
		return setting{text: text, source: "env " + name}, true
	}
	return setting{}, false
}

// databaseURL composes a DSN if one of the PG_ variables is set. The other parts have the
// defaults of Queen MQ.
func (l *loader) databaseURL() (setting, bool) {
	parts := map[string]string{
		"PG_HOST": "localhost", "PG_PORT": "5432", "PG_DB": "postgres",
		"PG_USER": "postgres", "PG_PASSWORD": "postgres",
	}
	var set []string
	for _, name := range []string{"PG_HOST", "PG_PORT", "PG_DB", "PG_USER", "PG_PASSWORD"} {
		if text := l.env[name]; text != "" {
			parts[name] = text
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		return setting{}, false
	}
	ok := l.checkPort("database.url", "PG_PORT", parts["PG_PORT"])
	query := url.Values{}
	switch ssl := l.env["PG_USE_SSL"]; ssl {
	case "", "false":
	case "true":
		query.Set("sslmode", "require")
		set = append(set, "PG_USE_SSL")
	default:
		l.fail(fmt.Errorf("database.url takes PG_USE_SSL, which is %q: it must be true or false", ssl))
		ok = false
	}
	u := url.URL{
		Scheme: "postgres",
		User:   url.UserPassword(parts["PG_USER"], parts["PG_PASSWORD"]),
		Host:   net.JoinHostPort(strings.Trim(parts["PG_HOST"], "[]"), parts["PG_PORT"]),
		Path:   "/" + parts["PG_DB"],
	}
	if strings.HasPrefix(parts["PG_HOST"], "/") { // the folder of a Unix socket
		u.Host = ""
		query.Set("host", parts["PG_HOST"])
		query.Set("port", parts["PG_PORT"])
	}
	u.RawQuery = query.Encode()
	return setting{text: u.String(), source: "env " + strings.Join(set, ", ")}, ok
}

// httpAddr applies HOST and PORT to the address of the lower layers. Each replaces its half.
func (l *loader) httpAddr() (setting, bool) {
	host, port := l.env["HOST"], l.env["PORT"]
	if host == "" && port == "" {
		return setting{}, false
	}
	var set []string
	oldHost, oldPort, err := net.SplitHostPort(l.v.GetString("http.addr"))
	if err != nil {
		_, oldPort, _ = net.SplitHostPort(Default().HTTP.Addr)
	}
	if host != "" {
		set = append(set, "HOST")
	} else {
		host = oldHost
	}
	ok := true
	if port != "" {
		set = append(set, "PORT")
		ok = l.checkPort("http.addr", "PORT", port)
	} else {
		port = oldPort
	}
	return setting{text: net.JoinHostPort(strings.Trim(host, "[]"), port), source: "env " + strings.Join(set, ", ")}, ok
}

func (l *loader) checkPort(key, name, text string) bool {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil && n > 0 {
		return true
	}
	l.fail(fmt.Errorf("%s takes its port from %s, which is %q: it must be a number from 1 to 65535", key, name, text))
	return false
}
