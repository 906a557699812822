package postgres

import (
	"errors"
	"regexp"
	"strings"
)

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
