// Package process has packages that keep data in the memory of one process.
//
//   - events passes events from one package to other packages.
//   - backoff computes pauses that grow.
//   - inflight bounds the memory of requests and answers.
//   - heap is a priority queue from which every element can be removed.
//   - logbuffer keeps lines of the log until the log can be written.
package process
