// Package live sends events to watchers. An event reports a change at this instance, at another instance or in a SQL
// session.
//
// A Hub collects events, a Watcher receives them (Hub.Watch). GET /api/v1/events, the dashboard and
// `belfry top` are watchers. Without a watcher at any instance, the hubs count nothing and send nothing.
//
// # What it costs the database
//
//  1. The cost does not depend on the number of watchers of an instance.
//  2. While nothing happens, watchers cost no statement.
//  3. One statement reads the groups whose lag or number of dead letters is beyond its threshold. It runs at most
//     once in live.read_interval: when the first watcher subscribes, after a push, delivery, ack or other change,
//     and when the lag of an idle group reaches the threshold. The read before returns that last instant.
//  4. One statement reads rows of the audit, at most once a second, after a row was written. The rows also say
//     which queues and groups operators changed, at all instances and in SQL. So notifications need not contain
//     these names.
//
// # Other instances
//
// Each message between instances is one notification on listen.LiveChannel. An instance sends its events at most once a
// second, in at most listen.MaxLive bytes. If the bytes do not suffice, the message has the busiest queues and the number of
// omitted queues. After a quiet second, the first event is sent after 50 ms.
//
//   - An instance with a watcher announces its interest (Watch). The other instances then send figures while they
//     are busy.
//   - The instance renews its interest only when figures arrive. An instance that sent figures and hears no renewal
//     for 15 seconds stops sending. So an idle system sends nothing. An instance that died gets figures for
//     15 seconds at most.
//   - An instance sends Hello when its LISTEN takes effect. Instances with watchers then announce their interest
//     again. So an instance that started, or missed notifications, knows which instances have watchers.
//
// Every role of the database can listen on the channel and notify it. But pkg/postgres/listen encrypts these messages and drops
// repeated ones. So only instances can read and send them.
//
// # Unwritten counts of the history
//
// The counts of the current minute are only in the memory of the instances. They do not depend on watchers. A reader of
// the history asks the other instances for these counts (Hub.Unwritten):
//
//   - If there is no other instance, the reader sends no question.
//   - Concurrent readers share a question. Later readers use its answers for half a second, or until another
//     instance sends figures.
//   - An instance answers all questions of a quarter of a second with one notification.
//   - A reader waits for answers for at most half a second. If an instance has not answered, the reader uses the
//     previous answer of that instance.
//
// # What a watcher does not see
//
//   - belfry.pause in a SQL session sends no notification. Watchers see the pause with the next change of an
//     operator. They see belfry.resume at once.
//   - The rates do not include messages that SQL sessions push and pop. If SQL sessions drain a group, watchers see
//     the group as behind until another event causes a read.
//   - Watchers do not see events of other instances in the first second after the first watcher subscribed.
//   - The lag covers only the 10 partitions of a group that have been due longest.
//
// # Slow watchers
//
// A watcher has a buffer of 1,024 events. When the buffer is full, the watcher loses its oldest event. The next Take
// returns the number of lost events. A slow watcher does not delay the hub or other watchers.
package live
