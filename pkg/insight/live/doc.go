// Package live tells watchers what happens: at this instance, at the other ones, and in SQL sessions.
//
// A Hub collects events, a Watcher receives them (Hub.Watch). GET /api/v1/events, the dashboard and
// `belfry top` are watchers. Without a watcher at any instance, nothing is counted and nothing is sent.
//
// # What it costs the database
//
//  1. The cost does not depend on the number of watchers of an instance.
//  2. While nothing happens, watchers cost no statement.
//  3. The lag and the dead letters of all groups are read by one statement, at most once in
//     live.read_interval: at the first watcher, when something moved, and at the instant at which a group
//     gets behind without doing anything. That instant is known from the read before.
//  4. Rows of the audit are read by one statement, at most once a second, after a row was written. From
//     the rows the hub also knows what operators changed, at all instances and in SQL. So names of what
//     they changed are in no notification.
//
// # Other instances
//
// Each message between instances is one notification on listen.LiveChannel, at most one a second from
// each instance, and of at most listen.MaxLive bytes. The busiest queues come first, and the message says how many
// are left out. What happens first after a quiet second is sent after 50 ms.
//
//   - An instance with a watcher announces itself (Watch). The others then send figures, when they have
//     something to say.
//   - The announcement is renewed only when figures arrive. An instance that sent figures and heard no
//     renewal for 15 seconds stops. So an idle system sends nothing, and an instance that died gets no
//     figures for longer than that.
//   - An instance says hello when its LISTEN takes effect. Instances with watchers then announce
//     themselves again. So a new instance, and one that missed notifications, knows who watches.
//
// Every role of the database can hear and send such notifications. It can neither read nor forge them: pkg/postgres/listen
// encrypts them, and passes on only what it has not heard before.
//
// # What is not written to the history
//
// The counts of the current minute are in the memory of the instances, with and without watchers. A reader of the
// history asks for them (Hub.Unwritten):
//
//   - An instance that is alone asks nobody. If nobody reads, nobody asks.
//   - The reads of one page share one question. A question that is open is shared. Its answers are used for half a
//     second, or until another instance sends figures.
//   - An instance answers all questions of a quarter of a second with one notification.
//   - A reader waits for an answer for at most half a second. Then it uses the last one of that instance.
//
// # What a watcher does not see
//
//   - belfry.pause in a SQL session sends no notification. It is shown with the next change of an operator.
//     belfry.resume is shown at once.
//   - Messages that SQL sessions push and pop are in no rate. A group that SQL sessions drain is shown as
//     behind until something else moves.
//   - What happens at another instance in the first second after the first watcher came.
//   - The lag counts the 10 partitions of a group that are due longest.
//
// # Slow watchers
//
// A watcher has a buffer of 1,024 events. When it is full, the watcher loses its oldest event, and the next
// Take says how many were lost. Nobody waits for a watcher.
package live
