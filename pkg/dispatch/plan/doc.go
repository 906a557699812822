// Package plan decides which intent may claim which partition. The input is the state at one instant: the waiting intents, and
// the candidates that a preflight found. The output is one decision per intent. A decision is advice and not a lease: the claim
// that follows may lose a race against another instance.
//
// The package is pure: it has no I/O, no clock, no randomness and no memory between two calls. The caller passes the time and the
// rotation. The package promises:
//
//   - A partition is given to a group once.
//   - A partition is given only if it is poppable, and never to an expired intent.
//   - Intents that name a partition are served before intents that take any partition. Within each
//     kind they are served in the order in which the caller lists them.
//   - The deepest partition is given first. Partitions of equal depth take turns at being first if
//     the caller increments rotate.
//   - Every intent that takes any partition gets its first partition before such an intent gets a second partition.
//   - No partition is left over while a live intent wants it.
//   - The order of the candidates does not change the result.
//   - The running time is at most the time of sorting the input.
//
// All instants of a call must be of one clock. The caller converts instants of other clocks.
//
// The package imports no other package of Belfry.
package plan
