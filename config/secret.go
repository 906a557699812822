package config

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/belfry-mq/belfry/config/setting"
)

const keywordValue = `'(?:\\.|[^'\\])*'|(?:\\.|[^\s\v\\'])(?:\\.|[^\s\v\\])*|`

var (
	// keywordDSN matches a whole DSN of the form key=value key='a value'.
	keywordDSN = regexp.MustCompile(`(?s)^(?:[\s\v]*\w+[\s\v]*=[\s\v]*(?:` + keywordValue + `))+[\s\v]*$`)
	// keywordPair matches one setting in such a DSN.
	keywordPair = regexp.MustCompile(`(?s)(\w+)([\s\v]*=[\s\v]*)(` + keywordValue + `)`)
)

// hideSecrets returns dsn with every password replaced by ***. If dsn is neither a URL nor
// key=value pairs, it returns only ***, because the password may be anywhere.
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
				return m[1] + m[2] + setting.Hidden
			}
			return pair
		})
	default:
		return setting.Hidden
	}
}

// hideInURL hides the passwords in the part of a DSN after "://". It does not parse the URL,
// because it must also hide a password with unescaped characters, which is a common mistake.
// An @ after a / ? or # may end such a password. Then hideInURL hides everything.
func hideInURL(rest string) string {
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if strings.Contains(tail, "@") {
		return setting.Hidden
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		if user, _, found := strings.Cut(authority[:at], ":"); found {
			authority = user + ":" + setting.Hidden + authority[at:]
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
			pairs[i] = name + "=" + setting.Hidden
		}
	}
	return before + "?" + strings.Join(pairs, "&")
}

// isSecretName reports whether the parameter of a DSN may be a password. It also accepts
// misspelled names and names of other systems (pasword, pswd, pwd). Postgres refuses such a
// DSN, but the printed DSN must not show the password.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "pas") || strings.Contains(name, "psw") || strings.Contains(name, "pw") || strings.Contains(name, "secret")
}
