// Package insight holds the reports for people and monitors. Its packages read messages and change none.
//
//   - stats counts and lists queues, groups, partitions and messages. history stores counts for each minute.
//   - explain says why a message is not delivered. trace stores the events that consumers record about messages.
//   - problem and doctor find problems and advise the operator.
//   - live sends events to the people who watch messages.
package insight
