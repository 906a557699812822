// Package reseal encrypts the stored messages of a queue with the current key, while servers use
// the queue.
//
// # How a run works
//
//  1. A pass reads all messages of the queue in pages, by partition name and seq. A page has at most
//     pageRows messages with at most pageBytes of payloads. A larger message is a page by itself.
//  2. The pass decrypts the payloads of a page that another key encrypted, encrypts them with the
//     current key and updates them in one transaction. In a queue with encryptionEnabled, it also
//     encrypts clear text.
//  3. The pass skips a message that another transaction has locked. Only a deletion locks messages.
//  4. A run makes passes until a pass changes and skips nothing, at most maxPasses. A later pass finds
//     messages that an instance with another current key pushed during an earlier pass.
//
// # What it promises
//
//   - A message is either unchanged, or encrypted with the current key and durable. Only its payload
//     and the column encrypted change. No cursor changes, and no consumer is woken.
//   - A run stores its progress only in the envelopes of the payloads. If a run stopped or lost its
//     connection, the next run skips the messages that have the current key.
//   - If a message cannot be decrypted, or Postgres cannot read it, the run leaves it unchanged and reports
//     it. The run reseals the other messages of the page.
//   - A run waits for no lock, and it holds the locks of one page. A deletion of such a message
//     waits until the page is committed.
//
// cmd/belfry imports this package.
package reseal
