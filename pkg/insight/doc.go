// Package insight holds what people and monitors look at. Its packages read, and change no message.
//
//   - stats counts and lists: queues, groups, partitions, messages. history has the counts of each minute.
//   - explain says why a message is not delivered. trace has the traces that programs store with messages.
//   - problem and doctor find what is wrong, and say what to do.
//   - live sends what happens to those who watch.
package insight
