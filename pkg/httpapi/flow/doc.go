// Package flow has the routes of limits: partitions that are blocked for a consumer group are listed and unblocked.
//
// The package declares the interface that it calls. Only pkg/httpapi imports it.
package flow
