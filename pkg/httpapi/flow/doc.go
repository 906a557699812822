// Package flow has the routes of limits: to show, set and remove the limits of a consumer group in a queue, and the default of a
// queue. It also lists and unblocks the partitions that are blocked for a group.
//
// A change of a group needs the right to consume the queue as the group, as a pause of the group does. A change of the default needs
// the right to administer the queue, as a pause of the queue does. To read limits, the right to read the queue is enough.
//
// The package declares the interface that it calls. Only pkg/httpapi imports it.
package flow
