package verb

import (
	"net/url"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/instant"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

// Input has the arguments and flags of a verb.
type Input struct {
	*session.Session
	Args []string
	// Err is the first error of a flag. If it is set, the request is not sent.
	Err error
}

// Arg returns an argument, escaped for a URL path.
func (in *Input) Arg(i int) string { return url.PathEscape(in.Args[i]) }

// Flag returns the value of a flag, or "" if the command does not have the flag.
func (in *Input) Flag(flag string) string {
	if f := in.Cmd.Flags().Lookup(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

// Query returns the flags that the user set as query parameters. An element of flags is FLAG, or FLAG=PARAMETER if
// the names differ.
func (in *Input) Query(flags ...string) url.Values {
	values := url.Values{}
	for _, both := range flags {
		flag, parameter, differ := strings.Cut(both, "=")
		if !differ {
			parameter = flag
		}
		if in.Cmd.Flags().Changed(flag) {
			values.Set(parameter, in.Flag(flag))
		}
	}
	return values
}

// SpanQuery is Query plus the times of --from and --to.
func (in *Input) SpanQuery(flags ...string) url.Values {
	values := in.Query(flags...)
	for _, name := range []string{"from", "to"} {
		if at := in.Instant(name); at != "" {
			values.Set(name, at)
		}
	}
	return values
}

// Instant returns the time in a flag: RFC 3339, now, or a duration before now such as 15m or '15m ago'.
func (in *Input) Instant(flag string) string {
	given := strings.TrimSpace(in.Flag(flag))
	if given == "" {
		return ""
	}
	at, err := instant.Parse(given, time.Now())
	if err != nil && in.Err == nil {
		in.Err = session.UsageError("--" + flag + " " + err.Error())
	}
	return at.UTC().Format(time.RFC3339Nano)
}
