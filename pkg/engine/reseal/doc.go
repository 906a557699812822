// Package reseal moves the stored messages of a queue to the current encryption key, while servers
// use the queue.
//
// # How a run works
//
//  1. A pass reads all messages of the queue in pages, by partition name and seq. A page has at most
//     pageRows messages, and at most pageBytes of payloads or one message.
//  2. Of each page it opens the payloads that another key encrypted, seals them with the current key
//     and updates them in one transaction. In a queue with encryptionEnabled, it also seals clear
//     text.
//  3. A message that another transaction locks is left out. Only a deletion locks messages.
//  4. Passes repeat until one changes nothing, maxPasses at most. A later pass finds the messages that
//     an instance with another current key pushed meanwhile.
//
// # What it promises
//
//   - A message is either as before or sealed with the current key, and its commit is on the disk. Only
//     its payload and the column encrypted change. No cursor changes, and no consumer is woken.
//   - The state of a run is in the envelopes alone. A run that was stopped or lost its connection is
//     repeated, and the repetition skips what is done.
//   - A message that cannot be decrypted, or that Postgres cannot read, stays as it is and is reported. The
//     other messages of its page are resealed.
//   - It waits for no lock, and it holds the locks of one page. A deletion waits for that page.
//
// It is imported by cmd/belfry.
package reseal
