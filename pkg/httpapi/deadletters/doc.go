// Package deadletters has the routes that list, count and summarize dead letters. It also reads the filter of the routes that
// change dead letters (package operate).
//
// It promises:
//
//   - No request changes state.
//   - A token with grants sees only the dead letters of the queues that the grants allow.
//   - A summary examines a bounded number of dead letters. Its member next leads to the older ones.
package deadletters
