// Package listen carries hints between the instances of Belfry that share a
// database: "this group has something in that partition". It holds the one
// LISTEN connection of a process, which proves itself, and the sender of
// notifications to the others.
//
// A notification is a hint and the tables are the truth. So the room does not
// promise that every hint arrives; it promises to say when one may be missing.
//
//   - The Listener is "proven" only while it hears its own canary, a notify to
//     itself that makes the round through Postgres. A connection that was cut, one
//     that is frozen and one that goes through a pooler that swallows
//     notifications are all noticed within the canary interval and timeout.
//   - Whenever something may have been missed, OnDoubt is called: each time LISTEN
//     has come into force, before the first message; when the proof is lost; for a
//     payload that cannot be read; and when another instance falls silent without
//     a goodbye, because it may have died between a commit and its hint.
//   - The Sender never blocks its callers. It coalesces: however many entries are
//     marked, there is at most one notifying commit per notify_interval, because
//     such commits go one at a time through the whole cluster. What was marked is
//     sent by a statement that started after the marking, or sent again.
//   - Nothing hangs. Every connection is cut hard when its time is up; nothing that
//     either Run started outlives it.
//
// Both use connections of their own, never one of a pool, and never open a
// transaction. The text of a notification is described at Encode.
//
// It is the only room that knows pgxlisten. Importable from floor 2 upwards.
package listen
