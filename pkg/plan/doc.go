// Package plan decides which waiting request may claim which partition. Its
// input is one moment: the intents that wait and the candidates that a preflight
// found; its output is one decision per intent. The decision is advice, not a
// lease: the claim that follows may still lose a race against another instance.
//
// It is pure: no I/O, no clock, no randomness, no memory between two calls; what
// it needs of these is an argument. It promises that
//
//   - a partition is given to a group once, and an intent gets one grant;
//   - nothing is given that is not poppable, and nothing to an expired intent;
//   - intents that name a partition are served before those that take any, and
//     within each kind the earliest deadline first, then the oldest, then the
//     lowest ID;
//   - the deepest partition goes first, and among equal depths each partition
//     has its turn at being first when the caller counts rotate up;
//   - every intent that takes any partition has its first before one of them has
//     a second;
//   - no partition is left over while a live intent wants it;
//   - the order of the input changes nothing;
//   - the time grows as that of sorting the input.
//
// All instants of a call are of one clock; the caller converts those of another.
//
// It imports nothing of ours and is importable from floor 2 upwards.
package plan
