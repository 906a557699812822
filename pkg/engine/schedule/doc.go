// Package schedule stores the messages of schedules. A schedule is a row of belfry.schedule. It puts a message into a queue at
// instants: by a cron expression, every so often, or once. The package when computes the instants.
//
// # One message for an instant
//
//  1. A Runner reads the rows that are due, and computes their messages and following instants. It holds no lock meanwhile.
//  2. One statement (tick.sql) moves handled_to of each row forward, and inserts the messages into belfry.inbox. It changes a
//     row only if handled_to and changed_at are as they were read. So all instances together store an instant at most once.
//  3. handled_to never decreases, and only instants after it are handled. So a clock that steps back repeats nothing.
//  4. If the statement fails, handled_to stays. So the next read finds the instant again, and no instant is forgotten.
//  5. Many schedules that are due together are handled by several statements, two at a time. So messages of different schedules
//     may be stored in any order. The messages of one schedule are stored in the order of their instants.
//  6. The transaction id of a message is the name of the schedule and the instant. So a partition stores it once, also after the
//     schedule was deleted and made again.
//
// # Which instance
//
// No lease and no session is held. The instances know each other by their canaries, so they have an order: the order of their
// ids. The first one handles an instant at once. The others look half a second later for each instance before them, at most
// 1.5 s later. If the first one has died or is frozen, the next one finds the rows still due and handles them. If two handle the
// same rows, step 2 lets one of them win. A lease as the sequencer has it would cost a session, and a frozen holder would have to
// be ended. Here a frozen instance holds nothing.
//
// # No polling
//
// A Runner remembers only the next instant of all schedules, in one timer. An instant costs two statements for the first
// instance, and one for each other instance. Between instants there is one read each dispatch.fallback_interval. A trigger
// notifies the instances when a caller changes a schedule. The clock of the database decides: the timer only measures the time
// until the instant, and the statement reads the clock again.
//
// Each handled instant leaves an old entry at the begin of the index. A vacuum removes these entries, but not while a session
// holds a snapshot. So a read begins at a floor: after a Runner has handled everything, no schedule is due before that time. A
// change, a failure, a contention and dispatch.fallback_interval make the next read begin at the first entry.
//
// # Missed instants and pauses
//
// Definition.Missed says what happens to instants that were missed. Instants during a pause are missed instants: the resume
// handles them by the same rule. With an overlap group, at most one message is stored for all missed instants. The group has
// finished a message when its cursor has passed it, also as a dead letter. A redriven message is not finished. A message that
// was deleted or rejected counts as finished.
//
// # Errors
//
// An expression that the server cannot read, or a message that the database refuses, is an error in the row. The schedule then
// has no instants until it is changed. Its instants are not forgotten: handled_to stays.
package schedule
