// Package deadletters has the routes that list and summarize dead letters, and that delete the dead letter of one message. It
// also reads the filter of the routes that change many dead letters (package operate).
//
// It promises:
//
//   - No GET request changes state.
//   - A token with grants sees only the dead letters of the queues that the grants allow.
//   - A summary examines a bounded number of dead letters. Its member next leads to the older ones.
package deadletters
