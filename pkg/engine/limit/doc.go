// Package limit reads and changes the limits of consumer groups and the default limits of queues. belfry.set_limits does the same in
// a SQL session. The claims in SQL obey the limits; see belfry.admit.
//
// The limits travel as JSON, in the form of docs/flow.md. SQL checks them, so each way to set them refuses the same mistakes.
package limit
