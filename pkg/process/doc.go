// Package process holds what one process keeps in memory beside its database.
//
//   - events carries what happened from one package to others.
//   - backoff computes pauses that grow.
//   - inflight bounds the memory of requests and answers.
//   - heap orders elements that may leave at any time.
//   - logbuffer keeps lines of the log until the log can be written.
package process
