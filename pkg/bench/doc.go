// Package bench runs load scenarios against a server, verifies the deliveries and reports the
// measurements. It knows the server only by its URL. The command `belfry bench` is its caller.
//
// A scenario is one way to load a server: see scenarios. A trial is one run of a scenario on a
// new queue. After the load, consumers pop the remaining messages. Only then the trial judges
// which messages are missing. Package load describes what is verified and measured.
//
// Producers of a closed loop stop while more than Window messages are in flight. So the reported
// end-to-end rate is one that consumers keep up with. A larger window gives a slightly higher
// rate and much longer times.
package bench
