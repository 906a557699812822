package when

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// mostTimes is the number of times of day that a sentence lists. A cron expression with more is shown as it is.
const mostTimes = 6

// Sentence describes the instants in English, such as "every weekday at 08:00, Europe/Rome". A cron expression for which
// there is no short sentence is shown as it is. Starts and Ends are not mentioned.
func (r *Rule) Sentence() string {
	switch {
	case !r.spec.At.IsZero():
		at := r.spec.At.In(r.zone)
		return fmt.Sprintf("on %s at %s, %s", at.Format("2 January 2006"), timeOfDay(at.Clock()), r.zone)
	case r.cron == nil:
		return "every " + duration(r.spec.Every)
	}
	if text, ok := r.cron.rhythm(); ok {
		if r.zone == time.UTC {
			return text
		}
		return fmt.Sprintf("%s, %s", text, r.zone)
	}
	if days, ok := r.cron.dates(); ok {
		if times, ok := r.cron.times(); ok {
			return fmt.Sprintf("%s at %s, %s", days, times, r.zone)
		}
	}
	return fmt.Sprintf("cron %s, %s", r.spec.Cron, r.zone)
}

// duration writes a duration, such as "15 minutes", "hour" or "1 hour 30 minutes".
func duration(d time.Duration) string {
	var words []string
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}, {"millisecond", time.Millisecond}, {"microsecond", time.Microsecond}} {
		if count := int(d / unit.size); count > 0 {
			words = append(words, counted(count, unit.name))
			d -= time.Duration(count) * unit.size
		}
	}
	if len(words) == 1 {
		return strings.TrimPrefix(words[0], "1 ")
	}
	return strings.Join(words, " ")
}

// counted writes a number and a noun.
func counted(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}

// timeOfDay writes a time. The seconds are left out if they are 0.
func timeOfDay(hour, minute, second int) string {
	if second == 0 {
		return fmt.Sprintf("%02d:%02d", hour, minute)
	}
	return fmt.Sprintf("%02d:%02d:%02d", hour, minute, second)
}

// rhythm describes an expression that runs on every day, through the whole day.
func (e *expression) rhythm() (string, bool) {
	every := func(field uint64, size int, unit time.Duration) (string, bool) {
		step, ok := stepOf(field, size)
		return "every " + duration(time.Duration(step)*unit), ok
	}
	if days, ok := e.dates(); !ok || days != everyDay || !e.elapsed {
		return "", false
	}
	hours, minutes := e.hour == span(0, 23), e.minute == span(0, 59)
	switch {
	case hours && minutes && bits.OnesCount64(e.second) > 1:
		return every(e.second, 60, time.Second)
	case hours && minutes && e.second != 1:
		return "at second " + list(numbers(e.second)) + " of every minute", true
	case e.second != 1:
		return "", false
	case hours && e.minute != 1 && bits.OnesCount64(e.minute) > 1:
		if text, ok := every(e.minute, 60, time.Minute); ok {
			return text, true
		}
		return "at minutes " + list(numbers(e.minute)) + " of every hour", bits.OnesCount64(e.minute) <= mostTimes
	case hours && e.minute != 1:
		return "at minute " + list(numbers(e.minute)) + " of every hour", true
	case e.minute == 1:
		return every(e.hour, 24, time.Hour)
	}
	return "", false
}

// stepOf returns the step of a field that has every value of its size, or every n-th value from 0, if n divides the size.
func stepOf(field uint64, size int) (int, bool) {
	count := bits.OnesCount64(field)
	if count == 0 || size%count != 0 {
		return 0, false
	}
	step := size / count
	for value := 0; value < size; value += step {
		if field>>value&1 == 0 {
			return 0, false
		}
	}
	return step, true
}

// times describes the times of day, if they are few and the hours are fixed.
func (e *expression) times() (string, bool) {
	if e.elapsed || bits.OnesCount64(e.hour)*bits.OnesCount64(e.minute)*bits.OnesCount64(e.second) > mostTimes {
		return "", false
	}
	var all []string
	for _, hour := range values(e.hour) {
		for _, minute := range values(e.minute) {
			for _, second := range values(e.second) {
				all = append(all, timeOfDay(hour, minute, second))
			}
		}
	}
	return list(all), true
}

const everyDay = "every day"

// dates describes the days. It returns false if both day fields are restricted, or if the text would be long.
func (e *expression) dates() (string, bool) {
	allMonthDays, allWeekdays := e.monthDay == span(1, 31), e.weekday == span(0, 6)
	months := "every month"
	if e.month != span(1, 12) {
		months = list(monthNames(e.month))
	}
	switch {
	case e.either:
		return "", false
	case allMonthDays && allWeekdays && months == "every month":
		return everyDay, true
	case allMonthDays && allWeekdays:
		return "every day in " + months, true
	case allMonthDays:
		return e.weekdayDates(months)
	case allWeekdays:
		return e.monthDates(months)
	}
	return "", false
}

// weekdayDates describes days of the week.
func (e *expression) weekdayDates(months string) (string, bool) {
	if len(e.weekdays) == 0 {
		text := "every weekday"
		if e.weekday != span(1, 5) {
			var names []string
			for _, day := range values(e.weekday >> 1 << 1) {
				names = append(names, time.Weekday(day).String())
			}
			if e.weekday&1 == 1 {
				names = append(names, time.Sunday.String())
			}
			text = "every " + list(names)
		}
		if months != "every month" {
			text += " in " + months
		}
		return text, true
	}
	if e.weekday != 0 || len(e.weekdays) > 1 {
		return "", false
	}
	nth := map[int]string{-1: "last", 1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
	return fmt.Sprintf("on the %s %s of %s", nth[e.weekdays[0].N], time.Weekday(e.weekdays[0].Weekday), months), true
}

// monthDates describes days of the month.
func (e *expression) monthDates(months string) (string, bool) {
	days := numbers(e.monthDay)
	switch {
	case len(e.monthDays) == 1 && len(days) == 0 && e.monthDays[0] == lastDay:
		return "on the last day of " + months, true
	case len(e.monthDays) > 0 || len(days) > mostTimes:
		return "", false
	case months != "every month":
		return "every year on " + list(days) + " " + months, len(days) == 1 || bits.OnesCount64(e.month) == 1
	case len(days) == 1:
		return "on day " + days[0] + " of every month", true
	}
	return "on days " + list(days) + " of every month", true
}

// span returns the bits of a range.
func span(from, to int) uint64 { return 1<<(to+1) - 1<<from }

// values returns the numbers of the bits of a field.
func values(field uint64) []int {
	var all []int
	for value, ok := following(field, 0); ok; value, ok = following(field, value+1) {
		all = append(all, value)
	}
	return all
}

func numbers(field uint64) []string {
	var all []string
	for _, value := range values(field) {
		all = append(all, strconv.Itoa(value))
	}
	return all
}

func monthNames(field uint64) []string {
	var all []string
	for _, value := range values(field) {
		all = append(all, time.Month(value).String())
	}
	return all
}

// list joins words, such as "1, 2 and 3".
func list(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
