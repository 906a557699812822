// Package flow has the routes that control how fast a consumer group gets messages: the limits of a group and the default of a queue,
// and the list and the release of blocked partitions.
//
// A change of a group needs the right to consume the queue as the group, as a pause of the group does. A change of the default needs
// the right to administer the queue, as a pause of the queue does. To read, the right to read the queue is enough.
//
// The package declares the interfaces that it calls. Only pkg/httpapi imports it.
package flow
