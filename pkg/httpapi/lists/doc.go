// Package lists serves the lists of all queues, groups, namespaces and tasks. They come from the totals in memory (package
// pkg/insight/totals), so a list can be sorted by each figure, and a search for a name examines all names at once. The caller sees
// the queues that its grants allow.
package lists
