// Package dispatch is the room of the waiting requests: it holds a pop that
// finds nothing until there is something, its time is up, its client has left
// or the server stops.
//
// Each waiting request looks, waits for its fallback timer and looks again; the
// delay grows exponentially between dispatch.poll_interval and
// dispatch.max_poll_interval. It promises that
//
//   - a waiting pop is answered before its timeout, a little early, so that a
//     client whose own limit is the same is not cut off in mid-delivery;
//   - a client that left takes no lease: one that was claimed while it left is
//     released at once;
//   - at most dispatch.max_intentions requests wait; one more is told to come
//     back (CodeOverloaded) and disturbs nobody.
//
// It declares the Store it needs. Importable from floor 4 upwards.
package dispatch
