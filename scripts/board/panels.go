package main

// rows returns the parts of the board.
func rows() []row {
	return []row{health(), traffic(), waiting(), lag(), groupCommit(), databaseRow(), schedules(), deadLetters(), spool()}
}

func health() row {
	return row{"Health", [][]panel{
		{
			{title: "Instances", kind: "stat", unit: "short", about: "Instances that Prometheus reaches. If the number is too small, look at the log of the missing instance. " +
				"An alert on `up` reports an instance that has stopped.",
				queries: []query{{"count(" + of("belfry_listener_proven") + ")", "instances"}}},
			{title: "Instances without a proven listener", kind: "stat", unit: "short", limit: 1, alerts: []string{"BelfryListenerNotProven"},
				about: "Such an instance finds messages of other instances only by timer. Check that `database.listen_url` reaches Postgres " +
					"directly or through a pooler in session mode.",
				queries: []query{{"sum(" + of("belfry_listener_proven") + " == bool 0)", "not proven"}}},
			{title: "Late groups", kind: "stat", unit: "short", limit: 1, alerts: []string{"BelfryMessagesLate"},
				about:   "Consumer groups with ready messages that are too old. See the row Lag for their names. Start more consumers, or find out why they are slow.",
				queries: []query{shared("belfry_late_groups", "late groups")}},
			{title: "Alerts that fire", kind: "table", unit: "short", about: "The runbook has a section for each alert. The table is empty when no alert fires.",
				queries: []query{{`ALERTS{alertname=~"Belfry.+",alertstate="firing"}`, "{{alertname}} {{instance}}"}}},
		},
		{
			{title: "Failed requests", unit: "reqps", alerts: []string{"BelfryRequestsUnavailable", "BelfryOverloaded"},
				about: "Requests that failed, by code. `unavailable`: the database did not answer; check Postgres. `overloaded`: too many requests wait; " +
					"spread the consumers over more instances. `internal`: read the log of the instance.",
				queries: []query{each("belfry_errors_total", "code")}},
			{title: "Processor time", unit: "short", about: "Cores that each instance uses. If all cores are busy, use larger batches, or add an instance. " +
				"docs/sizing.md has the cost of a message.",
				queries: []query{{perSecond(of("process_cpu_seconds_total")), "{{instance}}"}}},
			{title: "Memory", unit: "bytes", about: "Resident memory of each instance, and the part of requests and answers in flight. " +
				"`http.max_inflight_bytes` limits that part. A waiting request needs 20 to 36 KiB.",
				queries: []query{gauge("process_resident_memory_bytes", "resident"), gauge("belfry_http_inflight_bytes", "in flight")}},
		},
		{
			{title: "Listener", unit: "s", alerts: []string{"BelfryListenerNotProven"},
				about: "Seconds since the listener last received its own notification. A value that grows means that LISTEN does not work. " +
					"Waiting requests then probe by timer.",
				queries: []query{gauge("belfry_listener_seconds_since_proof", "since proof")}},
			{title: "Faults inside Belfry", unit: "short", limit: 1, alerts: []string{"BelfryDoubleAssignment"},
				about: "These counters must stay at 0. If one grows, save the log and a copy of /metrics/prometheus, and report both.",
				queries: []query{
					gauge("belfry_smart_poll_double_assignment_errors_total", "double assignment"), gauge("belfry_dispatch_panics_total", "panics"),
				}},
			{title: "TLS certificate", unit: "s", limit: 14 * 24 * 3600, below: true, alerts: []string{"BelfryCertificateExpires"},
				about:   "Time until the certificate expires. Replace the files before. The panel is empty without TLS.",
				queries: []query{{of("belfry_tls_certificate_expires_seconds") + " - time()", "{{instance}}"}}},
			{title: "Refused connections and lost log lines", unit: "cps", about: "Connections above `http.max_connections`, and lines of the log that were dropped " +
				"because their reader was too slow. Raise the limit, or find the client that opens so many connections.",
				queries: []query{rateOf("belfry_http_connections_refused_total", "connections"), rateOf("belfry_log_dropped_total", "log lines")}},
		},
	}}
}

func traffic() row {
	return row{"Traffic", [][]panel{
		{
			{title: "Messages", unit: "cps", about: "Messages that all chosen instances stored and delivered in a second. If deliveries stay below pushes " +
				"times groups, the lag grows.",
				queries: []query{
					{total(of("belfry_push_messages_total"), ""), "pushed"}, {total(of("belfry_inbox_sequenced_total"), ""), "written by SQL"},
					{total(of("belfry_pop_messages_total"), ""), "delivered"},
				}},
			{title: "Acknowledgments", unit: "cps", about: "Acknowledgments by result. `failed` comes again after the retry delay. `dead_lettered` is in the row Dead letters. " +
				"`refused` has a lease that ended: consumers take longer than `leaseTime`.",
				queries: []query{each("belfry_ack_messages_total", "result")}},
			{title: "Requests", unit: "reqps", about: "Answered requests by status. 204 is a long poll without messages. 499 is a client that disconnected.",
				queries: []query{each("belfry_http_request_duration_seconds_count", "status")}},
		},
		{
			{title: "Pushed, by queue", unit: "cps", about: "Messages that were stored in each queue. A missing queue is in the sum `(other)`: raise `metrics.max_queues`.",
				queries: []query{ofQueue("belfry_queue_push_messages_total")}},
			{title: "Delivered, by queue", unit: "cps", about: "Messages that were delivered from each queue, once for each group. 0 while messages wait means that no consumer works.",
				queries: []query{ofQueue("belfry_queue_pop_messages_total")}},
			{title: "Pops without a message, by queue", unit: "cps", about: "Many empty pops cost processor time. Use `wait=true`, so that the pop waits for a message.",
				queries: []query{ofQueue("belfry_queue_pop_empty_total")}},
		},
		{
			{title: "Time from commit to delivery", unit: "s", about: "Time from the commit of a message to its first delivery. It includes the time in which no consumer is free. " +
				"If it grows while requests wait, look at the row Waiting.",
				queries: []query{quantile(0.5, "belfry_commit_to_delivery_seconds", "", "p50"), quantile(0.99, "belfry_commit_to_delivery_seconds", "", "p99")}},
			{title: "Time of a push", unit: "s", about: "Time that clients wait for the answer of a push. Most of it is the commit in Postgres. Look at the row Group commit and at the disk of Postgres.",
				queries: []query{
					quantile(0.5, "belfry_http_request_duration_seconds", "", "p50", `route="/api/v1/push"`),
					quantile(0.99, "belfry_http_request_duration_seconds", "", "p99", `route="/api/v1/push"`),
				}},
		},
	}}
}

func waiting() row {
	return row{"Waiting", [][]panel{
		{
			{title: "Waiting requests", unit: "short", about: "Long polls that wait now. `dispatch.max_intentions` limits them. 0 while a group is late means that its consumers do not run.",
				queries: []query{gauge("belfry_dispatch_intents_waiting", "waiting"), gauge("belfry_dispatch_sql_waiters", "SQL channels")}},
			{title: "Requests refused or answered early", unit: "reqps", alerts: []string{"BelfryOverloaded"},
				about: "More requests wait than `dispatch.max_intentions` allows. Raise it, or spread the consumers over more instances. Behind a proxy, set `http.trusted_proxies`.",
				queries: []query{
					{total(of("belfry_errors_total", `code="overloaded"`), "instance"), "overloaded {{instance}}"},
					each("belfry_dispatch_refused_total", "limit"), rateOf("belfry_dispatch_displaced_total", "answered early"),
				}},
			{title: "Wakes, by source", unit: "cps", about: "Waiting requests that were woken. `local` is a push at the same instance. Many wakes by `timer` mean delays, windows or retries.",
				queries: []query{each("belfry_dispatch_woken_total", "source"), rateOf("belfry_dispatch_woken_by_timer_total", "timer")}},
		},
		{
			{title: "Preflight queries", unit: "s", limit: 0.05, alerts: []string{"BelfryPreflightSlow"},
				about:   "Time of the queries that look for due partitions (p95). Above the line, check the load of Postgres and bloat of the tables.",
				queries: []query{quantile(0.95, "belfry_smart_poll_preflight_duration_seconds", "instance", "p95 {{instance}}")}},
			{title: "Preflight queries that took too long", unit: "cps", alerts: []string{"BelfryPreflightTimeouts"},
				about:   "Each such query is repeated with twice the time. Look for locks and slow statements in Postgres.",
				queries: []query{rateOf("belfry_smart_poll_preflight_timeouts_total", "time-outs")}},
			{title: "Waiting requests in a round", unit: "short", limit: 150, alerts: []string{"BelfryRoundsLarge"},
				about:   "Requests that one round plans for (p95). Above the line, add an instance or raise `dispatch.poll_workers`.",
				queries: []query{quantile(0.95, "belfry_smart_poll_preflight_intentions_checked", "instance", "p95 {{instance}}")}},
		},
		{
			{title: "Requests that a round had nothing for", unit: "cps", alerts: []string{"BelfryIntentsSkipped"},
				about: "By reason, with the requests that got something as `viable`. `skip_lease_taken`: use more partitions, or acknowledge sooner. " +
					"`skip_no_partitions`: there are more consumers than work.",
				queries: []query{each("belfry_smart_poll_intentions_skipped_total", "reason"), {total(of("belfry_smart_poll_intentions_viable_total"), ""), "viable"}}},
			{title: "Notifications", unit: "cps", about: "Commits with a NOTIFY, and notifications that could not be read. One instance alone sends none.",
				queries: []query{rateOf("belfry_notify_flushes_total", "sent"), rateOf("belfry_listener_garbage_total", "unreadable")}},
			{title: "Failed notifications and reconnects", unit: "cps", alerts: []string{"BelfryNotifyFailures"},
				about:   "Consumers at other instances get messages late. If the notification queue of Postgres is full, end the session with the oldest transaction.",
				queries: []query{rateOf("belfry_notify_failures_total", "failed"), rateOf("belfry_listener_reconnects_total", "reconnects")}},
		},
	}}
}
