package config

import (
	"net/url"
	"regexp"
	"strings"
)

const hidden = "***"

const keywordValue = `'(?:\\.|[^'\\])*'|(?:\\.|[^\s\v\\'])(?:\\.|[^\s\v\\])*|`

var (
	// keywordDSN matches a whole DSN of the form key=value key='a value'.
	keywordDSN = regexp.MustCompile(`(?s)^(?:[\s\v]*\w+[\s\v]*=[\s\v]*(?:` + keywordValue + `))+[\s\v]*$`)
	// keywordPair matches one setting of it.
	keywordPair = regexp.MustCompile(`(?s)(\w+)([\s\v]*=[\s\v]*)(` + keywordValue + `)`)
)

// hideSecrets returns dsn with every password replaced by ***. A text that is
// neither form Postgres knows is hidden whole: a password may stand anywhere
// in it.
func hideSecrets(dsn string) string {
	switch {
	case strings.TrimSpace(dsn) == "":
		return dsn
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		scheme, rest, _ := strings.Cut(dsn, "://")
		return scheme + "://" + hideInURL(rest)
	case keywordDSN.MatchString(dsn):
		return keywordPair.ReplaceAllStringFunc(dsn, func(pair string) string {
			m := keywordPair.FindStringSubmatch(pair)
			if isSecretName(m[1]) {
				return m[1] + m[2] + hidden
			}
			return pair
		})
	default:
		return hidden
	}
}

// hideInURL works on text, not on a parsed URL: an unescaped character in the
// password is the usual mistake in a DSN, and it must not bring it to light. An
// @ after the host may be the end of such a password, so all is hidden then.
func hideInURL(rest string) string {
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if strings.Contains(tail, "@") {
		return hidden
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		if user, _, found := strings.Cut(authority[:at], ":"); found {
			authority = user + ":" + hidden + authority[at:]
		}
	}
	return authority + hideInQuery(tail)
}

func hideInQuery(tail string) string {
	before, query, found := strings.Cut(tail, "?")
	if !found {
		return tail
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil || isSecretName(plain) {
			pairs[i] = name + "=" + hidden
		}
	}
	return before + "?" + strings.Join(pairs, "&")
}

// isSecretName says whether a setting may be a password, also one that is misspelt or
// goes by another system's name (pasword, pswd, pwd): Postgres refuses such a DSN, and
// what is printed of it must not bring the password to light.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "pas") || strings.Contains(name, "psw") || strings.Contains(name, "pw") || strings.Contains(name, "secret")
}
