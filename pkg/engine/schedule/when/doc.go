// Package when computes the instants of a schedule. It uses no database and does not read the clock.
//
// A Spec has one of three kinds of instants: Cron, Every or At. Parse checks the Spec and returns a Rule. Rule.Next returns
// the first instant after a given one.
//
// # Cron
//
// An expression has five fields: minute, hour, day of the month, month, day of the week. With six fields, the first field
// is the second. A field is a list of numbers, ranges (1-5) and steps (*/15, 8-18/2), separated by commas. Months and days
// of the week have names (JAN, MON). 0 and 7 are Sunday. A range may pass the end of its field (22-2, FRI-MON). The day of the
// month may be L (the last day), L-3 (three days before it), LW (the last day from Monday to Friday) or 15W (the day from
// Monday to Friday that is nearest to the 15th). The day of the week may be MON#1 (the first Monday of the month) or FRI#L
// (the last Friday). @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly stand for expressions.
//
// If one of the two day fields contains *, a day must match both fields. Otherwise, a day must match one of them. So
// "0 8 13 * 5" runs on each 13th and on each Friday.
//
// The module go-cron reads the fields. Its search for the next instant is not used, because it follows other rules when the
// clock changes. Parse refuses some texts that the module reads in a surprising way: empty items of a list, "*-5", "+5",
// and a step over a range of weekdays that passes Sunday.
//
// # When the clock of the zone changes
//
// The rule depends on the hour field of the expression:
//
//   - Fixed hours (8, 1-5, 8,20) follow the wall clock. An instant comes when the clock of the zone shows its time or a
//     later time for the first time. So a time that the clock skips runs at the first instant after the gap. If several
//     times fall into one gap, one instant comes for all of them. A time that the clock shows twice runs once, at the
//     first of both instants.
//   - An hour field with * or a step (*, */2, 8-18/2) follows elapsed time. Every instant whose time matches runs, also in a
//     repeated hour. A time that the clock skips does not run. So "*/15 * * * *" runs every 15 minutes through each change.
//
// The kind of change does not matter: daylight saving of 30 minutes, 1 hour or 2 hours, a new offset of the zone, or a day
// that the zone skips. If a zone skips a whole day, "0 8 * * *" runs at the first instant of the next day, and again at 8:00.
//
// Every counts elapsed time from Spec.Starts, or from the Unix epoch. The zone does not matter for Every and At.
//
// # Dates
//
// A date that a month or year does not have is left out: "0 8 31 * *" runs in seven months, and "0 8 29 2 *" runs in leap
// years. Parse refuses an expression whose date never comes, such as 30 February. The calendar repeats after 400 years, so
// the search ends there. No instant comes after the year 9999.
//
// # Bounds
//
// Spec.Starts may be an instant. Spec.Ends is the end: no instant is at or after it. The precision is one microsecond, as in
// Postgres. Spec.At, Spec.Starts and Spec.Ends are rounded down.
package when
