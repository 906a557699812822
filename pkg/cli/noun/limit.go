package noun

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

const (
	limitColumns = `QUEUE:queue GROUP:consumerGroup SOURCE:source LIMITS:limits:settings LIVE-LEASES:use.liveLeases TOKENS:use.tokens
		LIMITED-UNTIL:use.limitedUntil CHANGED:changedAt:age:wide`
	defaultLimitColumns = "QUEUE:queue LIMITS:limits:settings CHANGED:changedAt:age:wide"
	limitsSetColumns    = "QUEUE:queue GROUP:consumerGroup CHANGED:changed DRY-RUN:dryRun BEFORE:before:settings LIMITS:limits:settings"

	limitLong = `Limits that you leave out keep their values. The value none removes one limit, and --remove removes all. A rate is
MESSAGES/DURATION, such as 100/1s. docs/flow.md describes the limits.`
)

// newGroupLimit returns the command for the limits of a group.
func newGroupLimit() *cobra.Command {
	return limitCommand(&cobra.Command{
		Use: "limit GROUP QUEUE", Short: "Show or change the limits of a consumer group", Args: cobra.ExactArgs(2),
		Long: "Show or change the limits of a consumer group in a queue. Without flags it shows the limits in force and their use. " + `The group
need not exist. ` + limitLong + ` A group whose limits are removed has the default of the queue.`,
		Example: `  belfry group limit billing orders
  belfry group limit billing orders --concurrency 5 --rate 100/1s --burst 20
  belfry group limit billing orders --breaker-failures 5 --breaker-pause 30s
  belfry group limit billing orders --remove`,
		ValidArgsFunction: session.Complete([]session.Completion{session.Groups, session.Queues}),
	}, func(args []string) string {
		return "/api/v1/consumer-groups/" + url.PathEscape(args[0]) + "/queues/" + url.PathEscape(args[1]) + "/limits"
	}, limitColumns)
}

// newQueueLimit returns the command for the default limits of a queue.
func newQueueLimit() *cobra.Command {
	return limitCommand(&cobra.Command{
		Use: "limit QUEUE", Short: "Show or change the default limits of the groups of a queue", Args: cobra.ExactArgs(1),
		Long: `Show or change the limits of all groups of a queue that have none of their own. Without flags it shows them. ` + limitLong,
		Example: `  belfry queue limit orders
  belfry queue limit orders --concurrency 20`,
		ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
	}, func(args []string) string { return "/api/v1/resources/queues/" + url.PathEscape(args[0]) + "/limits" }, defaultLimitColumns)
}

// limitCommand completes a command that shows and changes the limits at a path.
func limitCommand(cmd *cobra.Command, path func(args []string) string, columns output.Columns) *cobra.Command {
	cmd.RunE = session.Run(func(s *session.Session, args []string) error {
		var answer []byte
		show := client.Request{Path: path(args)}
		var now struct{ Limits api.Limits }
		err := s.Client.Do(s.Cmd.Context(), show, &answer)
		if err == nil {
			err = json.Unmarshal(answer, &now)
		}
		if err != nil {
			return err
		}
		change := client.Request{Method: http.MethodDelete, Path: show.Path}
		changed, err := changeLimits(s.Cmd.Flags(), &now.Limits)
		remove, _ := s.Cmd.Flags().GetBool("remove") // the command has this flag
		switch {
		case err != nil:
			return session.UsageError(err.Error())
		case remove && changed:
			return session.UsageError("--remove removes all limits: leave the other flags out")
		case changed:
			change.Method, change.Body = http.MethodPut, now.Limits
		case !remove:
			return s.Answer(answer, "", columns)
		}
		if s.DryRun {
			change.Query = url.Values{"dryRun": {"true"}}
		}
		if err := s.Client.Do(s.Cmd.Context(), change, &answer); err != nil {
			return err
		}
		return s.Answer(answer, "", limitsSetColumns)
	})
	session.AddFlags(cmd)
	f := cmd.Flags()
	f.String("concurrency", "", "greatest number of live leases")
	f.String("rate", "", "greatest rate, such as 100/1s")
	f.String("burst", "", "messages at once after a time without deliveries (default: the messages of --rate)")
	f.String("breaker-failures", "", "open the breaker after this number of failures in a row")
	f.String("breaker-share", "", "open the breaker at this share of failures, above 0 and up to 1")
	f.String("breaker-window", "", "time in which --breaker-share counts (default: 1m)")
	f.String("breaker-minimum", "", "acknowledgments from which --breaker-share counts (default: 10)")
	f.String("breaker-pause", "", "first pause of an open breaker (default: 10s)")
	f.String("breaker-pause-max", "", "longest pause of an open breaker (default: 10m)")
	f.String("on-exhausted", "", "after the last retry: deadLetter, block or skip")
	f.Bool("remove", false, "remove all limits")
	f.Bool("dry-run", false, "change nothing: show the changes")
	return cmd
}

// changeLimits puts the flags into limits, and reports whether there are any.
func changeLimits(f *pflag.FlagSet, l *api.Limits) (changed bool, err error) {
	var errs []error
	set := func(flag string, put func(value string) error) {
		if !f.Changed(flag) {
			return
		}
		changed = true
		value := f.Lookup(flag).Value.String()
		if value == "none" {
			value = ""
		}
		if put(value) != nil {
			errs = append(errs, fmt.Errorf("--%s is %q: give a value such as %s, or none", flag, value, exampleOf(flag)))
		}
	}
	b := api.Breaker{}
	if l.Breaker != nil {
		b = *l.Breaker
	}
	set("concurrency", number(&l.Concurrency))
	set("rate", rate(&l.RateLimit))
	set("burst", burst(&l.RateLimit))
	set("on-exhausted", text(&l.OnExhausted))
	set("breaker-failures", number(&b.Failures))
	set("breaker-share", func(value string) (err error) {
		if b.Share = 0; value != "" {
			b.Share, err = strconv.ParseFloat(value, 64)
		}
		return err
	})
	set("breaker-window", text(&b.Window))
	set("breaker-minimum", number(&b.Minimum))
	set("breaker-pause", text(&b.Pause))
	set("breaker-pause-max", text(&b.PauseMax))
	if l.Breaker = nil; b.Failures != 0 || b.Share != 0 {
		l.Breaker = &b
	} else if f.Changed("breaker-pause") || f.Changed("breaker-pause-max") || f.Changed("breaker-window") || f.Changed("breaker-minimum") {
		errs = append(errs, errors.New("the breaker needs --breaker-failures or --breaker-share"))
	}
	return changed, errors.Join(errs...)
}

// exampleOf returns an example of the value of a flag.
func exampleOf(flag string) string {
	switch {
	case strings.HasSuffix(flag, "rate"):
		return "100/1s"
	case strings.HasSuffix(flag, "burst"):
		return "20 together with a rate"
	case strings.HasSuffix(flag, "share"):
		return "0.5"
	default:
		return "5"
	}
}

// text returns a function that sets a text.
func text(into *string) func(string) error {
	return func(value string) error { *into = value; return nil }
}

// number returns a function that sets a whole number. The value "" sets 0.
func number(into *int64) func(string) error {
	return func(value string) (err error) {
		if *into = 0; value != "" {
			*into, err = strconv.ParseInt(value, 10, 64)
		}
		return err
	}
}

// rate returns a function that sets a rate. A new rate has the default burst.
func rate(into **api.RateLimit) func(string) error {
	return func(value string) (err error) {
		if *into = nil; value == "" {
			return nil
		}
		messages, per, found := strings.Cut(value, "/")
		if !found {
			return strconv.ErrSyntax
		}
		n, err := strconv.ParseInt(messages, 10, 64)
		*into = &api.RateLimit{Messages: n, Per: per}
		return err
	}
}

// burst returns a function that sets the burst of a rate.
func burst(into **api.RateLimit) func(string) error {
	return func(value string) error {
		if *into == nil {
			return strconv.ErrSyntax
		}
		return number(&(*into).Burst)(value)
	}
}
