package noun

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/belfry-mq/belfry/pkg/cli/instant"
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
)

func schedulePath(in *verb.Input) string { return "/api/v1/schedules/" + in.Arg(0) }

// theSchedule returns the schedule in the first argument.
func theSchedule(in *verb.Input) []verb.Thing {
	return []verb.Thing{{What: fmt.Sprintf("the schedule %q", in.Args[0]), Request: request.Get(schedulePath(in), nil)}}
}

var allSchedules = []session.Completion{session.Schedules}

const (
	scheduleColumns       = "NAME:name QUEUE:queue INSTANTS:sentence NEXT:nextAt LAST:lastAt PAUSED:paused ERROR:error REASON:pauseReason:wide PARTITION:partition:wide GROUP:overlapGroup:wide"
	schedulePausedColumns = "NAME:name PAUSED:paused CHANGED:changed"
)

// scheduleVerbs are the commands of the noun schedule.
var scheduleVerbs = []*verb.Verb{
	{
		Use: "list", Short: "List the schedules, with their next instants",
		Flags: func(f *pflag.FlagSet) {
			limitFlag(f)
			f.String("queue", "", "only schedules of this queue")
			f.String("name", "", "only schedules whose names have this part")
			f.String("cursor", "", "continue a list: pagination.next of the answer before")
		},
		Request: func(in *verb.Input) client.Request {
			return request.Get("/api/v1/schedules", in.Query("limit", "queue", "name", "cursor"))
		},
		Rows: "schedules", Columns: scheduleColumns,
	},
	{
		Use: "show NAME", Short: "Show a schedule with its payload and its last message", Complete: allSchedules,
		Request: func(in *verb.Input) client.Request { return request.Get(schedulePath(in), nil) },
		Columns: scheduleColumns + " LAST-TRANSACTION-ID:lastTransactionId PAYLOAD:payload",
	},
	setScheduleVerb,
	{
		Use: "next NAME", Short: "List the next instants of a schedule", Complete: allSchedules,
		Flags: func(f *pflag.FlagSet) { f.Int("n", 10, "number of instants, up to 1000") },
		Request: func(in *verb.Input) client.Request {
			return request.Get(schedulePath(in)+"/next", in.Query("n"))
		},
		Rows: "next", Columns: "AT:",
	},
	{
		Use: "run NAME", Short: "Send the message of a schedule now", Complete: allSchedules, Change: true,
		Would: "send the message of the schedule {0}", Named: theSchedule,
		Request: func(in *verb.Input) client.Request { return request.Post(schedulePath(in)+"/run", nil, nil) },
		Columns: "NAME:name QUEUE:queue TRANSACTION-ID:transactionId",
	},
	pausesSchedule(switched(verb.Verb{
		Use: "pause NAME", Short: "Stop the messages of a schedule, until a resume", Complete: allSchedules, Would: "pause the schedule {0}", Named: theSchedule,
	}, schedulePath)),
	pausesSchedule(switched(verb.Verb{
		Use: "resume NAME", Short: "Start the messages of a paused schedule again", Complete: allSchedules, Would: "resume the schedule {0}", Named: theSchedule,
	}, schedulePath)),
	{
		Use: "delete NAME", Short: "Delete a schedule; its stored messages stay", Complete: allSchedules, Change: true,
		Ask: "Delete the schedule {0}?", Would: "delete the schedule {0}", Named: theSchedule,
		Request: func(in *verb.Input) client.Request { return request.Delete(schedulePath(in), nil) },
		Columns: "NAME:name DELETED:deleted",
	},
}

func pausesSchedule(v *verb.Verb) *verb.Verb {
	v.Columns = schedulePausedColumns
	return v
}

// setScheduleVerb is the command that creates or replaces a schedule.
var setScheduleVerb = &verb.Verb{
	Use: "set NAME", Short: "Create a schedule, or replace it", Complete: allSchedules, Change: true, ServerDryRun: true,
	Long: `Create a schedule, or replace the schedule of this name. A schedule pushes one message to a queue at each instant of --cron, of
--every, or once at --at. Flags that you leave out have their defaults, also if the schedule exists. A schedule that was paused
stays paused. In texts of --payload and --header, {{schedule}} becomes the name and {{scheduled_at}} the instant.

--dry-run stores nothing and shows the next ten instants. docs/concepts.md describes what happens when clocks change.`,
	Example: `  belfry schedule set daily --queue reports --cron '0 8 * * 1-5' --zone Europe/Rome --payload '{}'
  belfry schedule set heartbeat --queue checks --every 10s --missed skip
  belfry schedule set launch --queue mails --at 2030-06-01T09:00:00Z --payload '{"to": "all"}' --dry-run`,
	Flags: func(f *pflag.FlagSet) {
		f.String("queue", "", "the queue that gets the messages; required")
		f.String("partition", "", "the partition (default: Default)")
		f.String("cron", "", "cron expression with five or six fields, or a name such as @daily")
		f.String("every", "", "time between two instants, such as 10s, 15m or 2d")
		f.String("at", "", "the only instant, RFC 3339")
		f.String("zone", "", "time zone of --cron by its IANA name (default: UTC)")
		f.String("payload", "{}", "payload of the messages, JSON")
		f.StringArray("header", nil, "header NAME=VALUE of each message; may be repeated")
		f.String("delay", "", "delay of the delivery, such as 15m or 2d")
		f.String("starts", "", "no instant is before this one, RFC 3339")
		f.String("ends", "", "no instant is at or after this one, RFC 3339")
		f.String("jitter", "", "each instant is later by a part of this time, such as 30s")
		f.String("missed", "", "missed instants: skip, one (one message for all) or all (default: one)")
		f.String("overlap-group", "", "send no message while this consumer group has not finished the last one")
	},
	Request: func(in *verb.Input) client.Request {
		body, err := scheduleBody(in)
		if err != nil && in.Err == nil {
			in.Err = err
		}
		query := url.Values{}
		if in.DryRun {
			query.Set("dryRun", "true")
		}
		return client.Request{Method: http.MethodPut, Path: schedulePath(in), Query: query, Body: body}
	},
	Columns: "NAME:schedule.name QUEUE:schedule.queue CREATED:created DRY-RUN:dryRun INSTANTS:schedule.sentence NEXT:schedule.next:list",
}

// scheduleBody returns the body of the request.
func scheduleBody(in *verb.Input) (map[string]any, error) {
	payload := in.Flag("payload")
	switch {
	case in.Flag("queue") == "":
		return nil, session.UsageError("--queue is missing: give the queue that gets the messages")
	case !json.Valid([]byte(payload)):
		return nil, session.UsageError("--payload is not JSON: a text needs quotes, such as --payload '\"text\"'")
	}
	body := map[string]any{"payload": json.RawMessage(payload)}
	for flag, member := range map[string]string{
		"queue": "queue", "partition": "partition", "cron": "cron", "at": "at", "zone": "zone", "starts": "starts", "ends": "ends", "missed": "missed", "overlap-group": "overlapGroup",
	} {
		if value := in.Flag(flag); value != "" {
			body[member] = value
		}
	}
	for _, flag := range []string{"every", "jitter", "delay"} {
		text := in.Flag(flag)
		if text == "" {
			continue
		}
		d, err := instant.Duration(text)
		if err != nil || d < 0 {
			return nil, session.UsageError(fmt.Sprintf("--%s is %q: it must be a duration such as 10s, 15m or 2d", flag, text))
		}
		if body[flag] = d.String(); flag == "delay" {
			delete(body, flag)
			body["delaySeconds"] = d.Seconds()
		}
	}
	headers := map[string]string{}
	given, _ := in.Cmd.Flags().GetStringArray("header") // the command has this flag
	for _, text := range given {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return nil, session.UsageError(fmt.Sprintf("--header is %q: write NAME=VALUE", text))
		}
		headers[name] = value
	}
	if len(headers) > 0 {
		body["headers"] = headers
	}
	return body, nil
}
