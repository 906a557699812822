package when

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxCron is the limit for the length of an expression.
const maxCron = 512

// named lists the names that stand for expressions.
var named = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parts describes the fields of an expression with six fields.
var parts = []struct{ name, values string }{
	{"second", "0 to 59"},
	{"minute", "0 to 59"},
	{"hour", "0 to 23"},
	{"day of the month", "1 to 31, L (the last day), L-3, LW or 15W"},
	{"month", "1 to 12, or JAN to DEC"},
	{"day of the week", "0 to 7 (0 and 7 are Sunday), SUN to SAT, MON#1 (the first Monday) or FRI#L (the last Friday)"},
}

// The positions of fields in parts.
const (
	hourPart = 2
	dayPart  = 3
	weekPart = 5
)

// item is one item of a list in a field. The module go-cron also reads other texts, such as "*-5", but ignores a part of them.
var item = regexp.MustCompile(`^(\*|\?|[0-9A-Za-z#]+(-[0-9A-Za-z]+)?)(/[0-9]+)?$`)

var parser = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Extended)

// parseCron reads an expression.
func parseCron(text string) (*expression, error) {
	if len(text) > maxCron {
		return nil, queue.Invalidf("cron has %d bytes: give at most %d", len(text), maxCron)
	}
	fields := strings.Fields(text)
	switch {
	case strings.HasPrefix(text, "@every"):
		return nil, queue.Invalidf("cron is %q: give the duration as every, such as \"15m\"", text)
	case strings.HasPrefix(text, "@"):
		full := named[strings.ToLower(text)]
		if full == "" {
			return nil, queue.Invalidf("cron %q is unknown: give five or six fields, or @yearly, @monthly, @weekly, @daily, @midnight or @hourly", text)
		}
		fields = strings.Fields(full)
	case strings.Contains(text, "TZ="):
		return nil, queue.Invalidf("cron %q has a time zone: give the time zone as zone", text)
	}
	switch len(fields) {
	case len(parts) - 1:
		fields = append([]string{"0"}, fields...)
	case len(parts):
	default:
		return nil, queue.Invalidf("cron %q has the wrong number of fields (%d): give five fields (minute, hour, day of the month, month, "+
			"day of the week), or six fields with the second first", text, len(fields))
	}
	for i := range fields {
		if err := check(fields, i); err != nil {
			return nil, err
		}
	}
	e, err := read(fields)
	if err != nil {
		return nil, queue.Invalidf("cron %q cannot be read (%v): write it in another way", text, err)
	}
	if _, ok := e.next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)); !ok {
		return nil, queue.Invalidf("cron %q never runs, because no date has its day of the month, month and day of the week: change one of them", text)
	}
	return e, nil
}

// check returns an error if one field cannot be read.
func check(fields []string, position int) error {
	field, part := fields[position], parts[position]
	bad := false
	for one := range strings.SplitSeq(field, ",") {
		bad = bad || !item.MatchString(one) || one[0] == '?' && position != dayPart && position != weekPart
	}
	alone := []string{"0", "0", "0", "*", "*", "*"}
	alone[position] = field
	if !bad {
		_, err := parser.Parse(strings.Join(alone, " "))
		bad = err != nil
	}
	if bad {
		return queue.Invalidf("the %s of cron is %q: give %s, *, a range (1-5), a step (*/2 or 1-5/2), or a list of them (1,3)",
			part.name, field, part.values)
	}
	if position == weekPart && passesSunday(field) {
		return queue.Invalidf("the %s of cron is %q, which has a step over a range that passes Sunday: write the days as a list", part.name, field)
	}
	return nil
}

// passesSunday reports whether a field of weekdays has a step over a range that continues after Sunday, such as FRI-MON/2.
// The module go-cron counts such steps in a week of eight days.
func passesSunday(field string) bool {
	for one := range strings.SplitSeq(field, ",") {
		days, step, _ := strings.Cut(one, "/")
		from, to, isRange := strings.Cut(days, "-")
		if isRange && step != "" && weekdayNumber(from) > weekdayNumber(to) {
			return true
		}
	}
	return false
}

// weekdayNumber returns the number of a weekday that go-cron has accepted.
func weekdayNumber(text string) int {
	if at := strings.Index("sunmontuewedthufrisat", strings.ToLower(text)); len(text) == 3 && at >= 0 {
		return at / 3
	}
	number, _ := strconv.Atoi(text) // go-cron has read the number
	return number
}

// read returns the expression of six fields.
func read(fields []string) (*expression, error) {
	parsed, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("it is a %T", parsed)
	}
	const values = uint64(1)<<60 - 1 // without the bit that go-cron sets for *
	return &expression{
		second: spec.Second & values, minute: spec.Minute & values, hour: spec.Hour & values, month: spec.Month & values,
		monthDay: spec.Dom & values, monthDays: spec.DomConstraints, weekday: spec.Dow & values, weekdays: spec.DowConstraints,
		either:  !strings.ContainsAny(fields[dayPart], "*?") && !strings.ContainsAny(fields[weekPart], "*?"),
		elapsed: strings.ContainsAny(fields[hourPart], "*/"),
	}, nil
}
