package when

import (
	"math/bits"
	"time"

	cron "github.com/netresearch/go-cron"
)

// lastDay is the rule L.
var lastDay = cron.DomConstraint{Type: cron.DomLast}

// cycle is the number of years after which the calendar repeats, with the same days of the week.
const cycle = 400

// expression is a parsed cron expression. Bit n of a field is set if the value n matches.
type expression struct {
	second, minute, hour, month uint64

	monthDay, weekday uint64 // days of the month from 1, days of the week from 0 (Sunday)
	monthDays         []cron.DomConstraint
	weekdays          []cron.DowConstraint

	either  bool // a day must match only one of the two day fields
	elapsed bool // the hour field has * or a step
}

// following returns the first value of a field from value on.
func following(field uint64, value int) (int, bool) {
	left := field >> value << value
	return bits.TrailingZeros64(left), left != 0
}

// first returns the lowest value of a field.
func first(field uint64) int { return bits.TrailingZeros64(field) }

// next returns the first matching wall time from the given one on.
func (e *expression) next(from time.Time) (time.Time, bool) {
	year, month, day := from.Date()
	for last := min(year+cycle, lastYear+1); year <= last; day = 1 {
		if e.month>>int(month)&1 == 1 {
			for days := e.days(year, month); ; day++ {
				var ok bool
				if day, ok = following(days, day); !ok {
					break
				}
				midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
				if from.Before(midnight) {
					from = midnight
				}
				if clock, ok := e.clock(from.Clock()); ok {
					return midnight.Add(clock), true
				}
			}
		}
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return time.Time{}, false
}

// clock returns the first matching time of day from the given one on, as the time since midnight.
func (e *expression) clock(hour, minute, second int) (time.Duration, bool) {
	if e.hour>>hour&1 == 1 {
		if e.minute>>minute&1 == 1 {
			if s, ok := following(e.second, second); ok {
				return sinceMidnight(hour, minute, s), true
			}
		}
		if m, ok := following(e.minute, minute+1); ok {
			return sinceMidnight(hour, m, first(e.second)), true
		}
	}
	h, ok := following(e.hour, hour+1)
	return sinceMidnight(h, first(e.minute), first(e.second)), ok
}

func sinceMidnight(hour, minute, second int) time.Duration {
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second
}

// days returns the matching days of a month, one bit for each day.
func (e *expression) days(year int, month time.Month) uint64 {
	length := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	start := int(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday())
	all := uint64(1)<<(length+1) - 2
	monthDay := e.monthDay
	for _, rule := range e.monthDays {
		monthDay |= 1 << monthDayOf(rule, length, start)
	}
	weekday := uint64(0)
	for day := 1; day <= length; day++ {
		if e.weekday>>((start+day-1)%7)&1 == 1 {
			weekday |= 1 << day
		}
	}
	for _, rule := range e.weekdays {
		weekday |= 1 << weekdayOf(rule, length, start)
	}
	if e.either {
		return (monthDay | weekday) & all
	}
	return monthDay & weekday & all
}

// monthDayOf returns the day of L, L-n, LW or nW in a month, or 0 if the month has no such day. start is the weekday of the
// first day.
func monthDayOf(rule cron.DomConstraint, length, start int) int {
	day := length
	switch rule.Type {
	case cron.DomLast:
		return length
	case cron.DomLastOffset:
		return max(0, length-rule.N)
	case cron.DomLastWeekday:
	case cron.DomNearestWeekday:
		if day = rule.N; day > length {
			return 0
		}
	}
	switch time.Weekday((start + day - 1) % 7) {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == length {
			return day - 2
		}
		return day + 1
	default:
		return day
	}
}

// weekdayOf returns the day of MON#2 or MON#L in a month, or 0 if the month has no such day.
func weekdayOf(rule cron.DowConstraint, length, start int) int {
	day := 1 + (rule.Weekday-start+7)%7
	if rule.N < 0 {
		return day + (length-day)/7*7
	}
	if day += 7 * (rule.N - 1); day > length {
		return 0
	}
	return day
}
