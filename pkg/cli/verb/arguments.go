package verb

import (
	"net/url"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/cli/instant"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

// input are the arguments and flags of a verb.
type Input struct {
	*session.Session
	Args []string
	Err  error
}

// arg returns an argument, escaped for a path.
func (in *Input) Arg(i int) string { return url.PathEscape(in.Args[i]) }

// flag returns the value of a flag.
func (in *Input) Flag(flag string) string {
	if f := in.Cmd.Flags().Lookup(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

// query returns the flags that are set as parameters. pairs are names of a flag and its parameter.
func (in *Input) Query(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if in.Cmd.Flags().Changed(pairs[i]) {
			values.Set(pairs[i+1], in.Flag(pairs[i]))
		}
	}
	return values
}

// instant returns a flag that is an instant: RFC 3339, now, or a duration before now such as 15m or '15m ago'.
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
