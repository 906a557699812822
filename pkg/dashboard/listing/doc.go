// Package listing has the pages that list queues, groups, namespaces and tasks, and the page that searches partitions. They read the API
// as the caller.
package listing
