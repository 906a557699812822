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
	// unit is the unit of a value that is a whole number: ms, s or d. It is empty for other values.
	unit string
}

var unitNames = map[string]string{"ms": "milliseconds", "s": "seconds", "d": "days"}

var aliases = []alias{
	{key: "database.pool_size", names: []string{"DB_POOL_SIZE"}},
	{key: "dispatch.max_intentions", names: []string{"MAX_INTENTIONS"}},
	{
		key:   "dispatch.poll_interval",
		names: []string{"POLL_INTERVAL_MS", "POLL_WORKER_INTERVAL", "POLL_DB_INTERVAL"},
		unit:  "ms",
	},
	{key: "dispatch.max_poll_interval", names: []string{"QUEUE_MAX_POLL_INTERVAL", "POLL_MAX_INTERVAL"}, unit: "ms"},
	{key: "dispatch.poll_workers", names: []string{"POLL_WORKER_COUNT"}},
	{key: "dispatch.backoff_threshold", names: []string{"QUEUE_BACKOFF_THRESHOLD", "POLL_BACKOFF_THRESHOLD"}},
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
	{key: "spool.dir", names: []string{"FILE_BUFFER_DIR"}},
	{key: "sweep.retention_batch_size", names: []string{"RETENTION_BATCH_SIZE"}},
	{key: "sweep.eviction_interval", names: []string{"EVICTION_INTERVAL"}, unit: "ms"},
	{key: "sweep.eviction_batch_size", names: []string{"EVICTION_BATCH_SIZE"}},
	{key: "sweep.partition_cleanup_days", names: []string{"PARTITION_CLEANUP_DAYS"}},
	{key: "history.retention", names: []string{"METRICS_RETENTION_DAYS"}, unit: "d"},
	{key: "encryption.key", names: []string{"QUEEN_ENCRYPTION_KEY"}},
	{key: "auth.enabled", names: []string{"JWT_ENABLED"}},
	{key: "auth.algorithm", names: []string{"JWT_ALGORITHM"}},
	{key: "auth.secret", names: []string{"JWT_SECRET"}},
	{key: "auth.public_key", names: []string{"JWT_PUBLIC_KEY"}},
	{key: "auth.jwks_url", names: []string{"JWT_JWKS_URL"}},
	{key: "auth.jwks_refresh_interval", names: []string{"JWT_JWKS_REFRESH_INTERVAL"}, unit: "s"},
	{key: "auth.jwks_timeout", names: []string{"JWT_JWKS_TIMEOUT_MS"}, unit: "ms"},
	{key: "auth.issuer", names: []string{"JWT_ISSUER"}},
	{key: "auth.audience", names: []string{"JWT_AUDIENCE"}},
	{key: "auth.clock_skew", names: []string{"JWT_CLOCK_SKEW"}, unit: "s"},
	{key: "auth.role_claim", names: []string{"JWT_ROLES_CLAIM"}},
	{key: "auth.roles_claim", names: []string{"JWT_ROLES_ARRAY_CLAIM"}},
	{key: "auth.admin_role", names: []string{"JWT_ROLE_ADMIN"}},
	{key: "auth.read_write_role", names: []string{"JWT_ROLE_READ_WRITE"}},
	{key: "auth.read_only_role", names: []string{"JWT_ROLE_READ_ONLY"}},
	{key: "auth.skip_paths", names: []string{"JWT_SKIP_PATHS"}},
	{key: "log.level", names: []string{"LOG_LEVEL"}},
}

// fromAliases reads the variables of Queen MQ. If an upper layer sets a key, fromAliases does not
// read the variables of the key, and reports no mistake in them: they may belong to another
// program.
func (l *loader) fromAliases(upper map[string]entry) map[string]entry {
	layer := map[string]entry{}
	read := func(key string, compose func() (entry, bool)) {
		if _, set := upper[key]; set {
			return
		}
		if s, ok := compose(); ok {
			layer[key] = s
		}
	}
	for _, a := range aliases {
		read(a.key, func() (entry, bool) { return l.fromAlias(a) })
	}
	read("database.url", l.databaseURL)
	read("http.addr", l.httpAddr)
	return layer
}

func (l *loader) fromAlias(a alias) (entry, bool) {
	for _, name := range a.names {
		text, used, ok := l.variable(keyNamed(a.key), name)
		if !ok {
			continue
		}
		if a.unit != "" {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				l.fail(fmt.Errorf("%s is %q (env %s): it must be a whole number of %s", a.key, text, name, unitNames[a.unit]))
				return entry{}, false
			}
			if text += a.unit; a.unit == "d" {
				text = strconv.FormatInt(24*n, 10) + "h"
			}
		}
		return entry{text: text, source: "env " + used}, true
	}
	return entry{}, false
}

// part returns the value of a variable, and appends the name of the variable to *set. If the
// variable is not set, part returns fallback.
func (l *loader) part(set *[]string, name, fallback string) string {
	if text := l.env[name]; text != "" {
		*set = append(*set, name)
		return text
	}
	return fallback
}

// databaseURL composes a DSN if at least one of the PG_ variables is set. If the variable of a
// part is not set, the part has the default of Queen MQ.
func (l *loader) databaseURL() (entry, bool) {
	var set []string
	host, port := l.part(&set, "PG_HOST", "localhost"), l.part(&set, "PG_PORT", "5432")
	database := l.part(&set, "PG_DB", "postgres")
	user, password := l.part(&set, "PG_USER", "postgres"), "postgres"
	if text, used, ok := l.secretOf("PG_PASSWORD"); ok {
		password, set = text, append(set, used)
	}
	if len(set) == 0 {
		return entry{}, false
	}
	ok := l.checkPort("database.url", "PG_PORT", port)
	query := url.Values{}
	switch ssl := l.env["PG_USE_SSL"]; ssl {
	case "", "false":
	case "true":
		query.Set("sslmode", "require")
		set = append(set, "PG_USE_SSL")
	default:
		l.fail(fmt.Errorf("the environment variable PG_USE_SSL (for database.url) is %q: it must be true or false", ssl))
		ok = false
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: joinAddr(host, port), Path: "/" + database}
	if strings.HasPrefix(host, "/") { // the folder of a Unix socket
		u.Host = ""
		query.Set("host", host)
		query.Set("port", port)
	}
	u.RawQuery = query.Encode()
	return entry{text: u.String(), source: "env " + strings.Join(set, ", ")}, ok
}

// httpAddr takes http.addr from the lower layers, and replaces its host by HOST and its port by PORT.
func (l *loader) httpAddr() (entry, bool) {
	host, port, err := net.SplitHostPort(l.v.GetString("http.addr"))
	if err != nil {
		_, port, _ = net.SplitHostPort(Default().HTTP.Addr)
	}
	var set []string
	host, port = l.part(&set, "HOST", host), l.part(&set, "PORT", port)
	if len(set) == 0 {
		return entry{}, false
	}
	ok := l.env["PORT"] == "" || l.checkPort("http.addr", "PORT", port)
	return entry{text: joinAddr(host, port), source: "env " + strings.Join(set, ", ")}, ok
}

// joinAddr accepts an IPv6 host with and without brackets.
func joinAddr(host, port string) string { return net.JoinHostPort(strings.Trim(host, "[]"), port) }

func (l *loader) checkPort(key, name, text string) bool {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil && n > 0 {
		return true
	}
	l.fail(fmt.Errorf("the environment variable %s (for %s) is %q: it must be a number from 1 to 65535", name, key, text))
	return false
}
