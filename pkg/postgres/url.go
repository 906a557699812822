package postgres

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ParseURL reads a DSN. It ignores white space around it. It refuses options of the driver with which Belfry cannot
// work, and options of its pool, which have keys of their own. Errors show no part of the DSN.
func ParseURL(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(strings.TrimSpace(url))
	if err != nil {
		return nil, InvalidURL(err)
	}
	for _, name := range slices.Sorted(maps.Keys(config.RuntimeParams)) {
		if strings.HasPrefix(name, "pool_") {
			return nil, fmt.Errorf("%s is no option of the URL: remove it; database.pool_size bounds the connections", name)
		}
	}
	switch mode := config.DefaultQueryExecMode; {
	case mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeCacheDescribe:
		return nil, errors.New("default_query_exec_mode is neither cache_statement nor cache_describe: remove it from the URL")
	case config.StatementCacheCapacity <= 0:
		return nil, errors.New("statement_cache_capacity is 0: remove it from the URL")
	case config.DescriptionCacheCapacity <= 0:
		return nil, errors.New("description_cache_capacity is 0: remove it from the URL")
	}
	return config, nil
}

// quoted matches a part of a DSN in an error of pgx.
var quoted = regexp.MustCompile(`(?s)".*"`)

// InvalidURL returns why pgx refused a DSN. The error of pgx shows the DSN and hides only passwords
// that it recognizes. This error shows no part of the DSN.
func InvalidURL(err error) error {
	text := err.Error()
	if end := strings.LastIndex(text, "`: "); end >= 0 {
		text = text[end+len("`: "):]
	}
	if strings.HasPrefix(text, "failed to parse as") || strings.HasPrefix(text, "invalid port") { // often a character of the password
		text += ": write it as postgres://user:password@host:5432/name, with characters such as / # ? % @ in the password percent-encoded"
	}
	return errors.New(quoted.ReplaceAllString(text, `"***"`))
}
