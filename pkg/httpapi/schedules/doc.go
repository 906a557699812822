// Package schedules has the routes of schedules: to set, show, list, pause, resume, run and delete them, and to preview their
// instants.
//
// A change needs the right to administer the queue of a schedule, which includes the right to push to it. If a schedule moves to
// another queue, the change needs this right for both queues. The store locks the schedule before it checks the old queue. So the queue
// cannot change between the check and the change. A schedule of a queue that a caller may not read does not exist for this caller.
//
// The package declares the interface that it calls. Only pkg/httpapi imports it.
package schedules
