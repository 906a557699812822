package main

func lag() row {
	return row{"Lag", [][]panel{
		{
			{title: "Late groups", unit: "short", limit: 1, alerts: []string{"BelfryMessagesLate"},
				about:   "Groups with ready messages older than `problems.late_after`, or than half of `maxWaitTimeSeconds`. Their consumers are too slow or have stopped.",
				queries: []query{shared("belfry_late_groups", "late groups")}},
			{title: "Oldest ready message", unit: "s", about: "Age of the oldest message that could be delivered and is not. If it grows, a group needs consumers.",
				queries: []query{shared("belfry_oldest_ready_seconds", "age")}},
			{title: "Open breakers", unit: "short", limit: 1, alerts: []string{"BelfryBreakersOpen"},
				about:   "Groups that get no messages because a service is down. `belfry group breaker GROUP QUEUE` shows the reason. The problems name the groups.",
				queries: []query{shared("belfry_breakers_open", "open")}},
			{title: "Age of the counts of queues", unit: "s", about: "The panels with names of queues and groups show values of this age. Above a minute, the database is too slow to count.",
				queries: []query{gauge("belfry_queue_metrics_age_seconds", "age")}},
		},
		{
			{title: "Lag of groups, in seconds", unit: "s", about: "Age of the oldest message that a group has not finished. `belfry top` and the dashboard show the partitions.",
				queries: []query{ofGroup("belfry_group_lag_seconds")}},
			{title: "Lag of groups, in messages", unit: "short", about: "Messages that a group has not finished. If it grows, add consumers. More consumers than partitions do not help.",
				queries: []query{ofGroup("belfry_group_lag_messages")}},
			{title: "Unfinished messages, by queue", unit: "short", about: "Messages that at least one group has not finished. A group that nobody uses any more keeps this number high: delete the group.",
				queries: []query{stored("belfry_queue_pending_messages")}},
		},
	}}
}

func groupCommit() row {
	return row{"Group commit", [][]panel{
		{
			{title: "Messages that wait for a flush", unit: "percentunit", limit: 0.8, alerts: []string{"BelfryBatchQueueFull"},
				about:   "Messages that wait, divided by `batch.queue_size`. Above the line, the database does not keep up. Look at its disk and locks.",
				queries: []query{{of("belfry_batch_queue_depth") + " / " + of("belfry_batch_queue_size"), "{{op}} {{instance}}"}}},
			{title: "Calls in a commit", unit: "short", about: "Mean number of calls that share a commit. It grows with the load. 1 means that calls do not wait for each other.",
				queries: []query{mean("belfry_batch_calls", "op")}},
			{title: "Messages in a commit", unit: "short", about: "Mean number of messages that share a commit. Larger batches of the clients cost less for each message.",
				queries: []query{mean("belfry_batch_size", "op")}},
		},
		{
			{title: "Time of a flush", unit: "s", about: "Time of one flush with its commit (p99). It is the time of the disk plus the statements. Above 100 ms, look at the disk and the locks of Postgres.",
				queries: []query{quantile(0.99, "belfry_batch_flush_duration_seconds", "op", "p99 {{op}}")}},
			{title: "Flushes in flight and blocked calls", unit: "short", about: "Flushes at the same time, which `batch.max_flushes` limits, and calls that wait because the queue of flushes is full.",
				queries: []query{
					{"sum by (op) (" + of("belfry_batch_flushes_in_flight") + ")", "in flight {{op}}"}, {"sum by (op) (" + of("belfry_batch_blocked_callers") + ")", "blocked {{op}}"},
				}},
			{title: "Flushes that failed", unit: "cps", about: "`retried` flushes had a temporary error, such as a deadlock. `failed` flushes gave their callers an error: read the log.",
				queries: []query{
					{total(of("belfry_batch_retries_total"), "op"), "retried {{op}}"}, {total(of("belfry_batch_splits_total"), "op"), "split {{op}}"},
					{total(of("belfry_batch_failures_total"), "op"), "failed {{op}}"},
				}},
		},
	}}
}

func databaseRow() row {
	return row{"Database", [][]panel{
		{
			{title: "Connections", unit: "short", about: "Connections of the pool, and those in use. If all are in use for minutes, raise `database.pool_size`, or look for slow statements.",
				queries: []query{gauge("belfry_pool_connections", "open"), gauge("belfry_pool_acquired", "in use")}},
			{title: "Stored messages, by queue", unit: "short", about: "They use the disk until retention deletes them. docs/sizing.md has the bytes of a message.",
				queries: []query{stored("belfry_queue_messages")}},
			{title: "Partitions, by queue", unit: "short", about: "A number that grows without end means that names of partitions are used once. A sweep removes empty partitions after a time.",
				queries: []query{stored("belfry_queue_partitions")}},
		},
		{
			{title: "Oldest message written by SQL", unit: "s", limit: 60, alerts: []string{"BelfryInboxLate"},
				about:   "Age of the oldest row that waits for the sequencer. Above the line, look for a long transaction of a producer, and for the instance that is the sequencer.",
				queries: []query{shared("belfry_inbox_oldest_seconds", "age")}},
			{title: "Messages written by SQL that wait", unit: "short", about: "Committed rows that are not in their partitions yet. The sequencer is on one instance.",
				queries: []query{shared("belfry_inbox_waiting_rows", "waiting"), gauge("belfry_inbox_sequencer", "sequencer")}},
			{title: "Messages written by SQL that were rejected", unit: "short", limit: 1, alerts: []string{"BelfryInboxRejected"},
				about:   "They are in belfry.inbox_rejected with the reason. Correct the reason, and run `SELECT belfry.inbox_retry()`.",
				queries: []query{shared("belfry_inbox_rejected_rows", "rejected")}},
		},
		{
			{title: "Deleted by sweeps", unit: "cps", about: "Messages that retention and other rules delete. It should reach the rate of pushes, or the disk fills up.",
				queries: []query{each("belfry_sweep_deleted_total", "reason")}},
			{title: "Deleted or skipped unread", unit: "cps", about: "Messages that a group had not finished. If that is not intended, raise the retention of the queue, or add consumers.",
				queries: []query{
					rateOf("belfry_sweep_deleted_unread_total", "deleted"), rateOf("belfry_sweep_skipped_unread_total", "skipped"), rateOf("belfry_sweep_expired_total", "expired"),
				}},
			{title: "Work of sweeps", unit: "short", about: "Partitions that the current run still has to do. If it never reaches 0, the sweeps are too slow for the pushes.",
				queries: []query{{"sum by (job) (" + of("belfry_sweep_backlog_partitions") + ")", "{{job}}"}}},
			{title: "Failed sweeps", unit: "cps", about: "Failed runs, and partitions that a run skipped. The log has the reason.",
				queries: []query{each("belfry_sweep_failures_total", "job")}},
		},
	}}
}

func schedules() row {
	return row{"Schedules", [][]panel{{
		{title: "Overdue schedule", unit: "s", limit: 10, alerts: []string{"BelfrySchedulesLate"},
			about:   "How late the schedule is that has been due longest. Above the line, the database is slow or refuses the statement. No instant is forgotten.",
			queries: []query{shared("belfry_schedule_late_seconds", "late")}},
		{title: "Lateness of messages", unit: "s", about: "Time between the instant of a schedule and the commit of its message.",
			queries: []query{quantile(0.5, "belfry_schedule_lateness_seconds", "", "p50"), quantile(0.99, "belfry_schedule_lateness_seconds", "", "p99")}},
		{title: "Messages of schedules", unit: "cps", about: "Stored messages, skipped instants and failed attempts. Skipped instants were missed, or the last message was not finished.",
			queries: []query{
				rateOf("belfry_schedule_messages_total", "stored"), rateOf("belfry_schedule_skipped_total", "skipped"), rateOf("belfry_schedule_failures_total", "failed"),
			}},
		{title: "Schedules with an error", unit: "short", limit: 1, alerts: []string{"BelfryScheduleErrors"},
			about:   "They store no messages. `SELECT name, error FROM belfry.schedules WHERE error IS NOT NULL` has the reasons. Correct the schedules.",
			queries: []query{shared("belfry_schedule_errors", "errors")}},
	}}}
}

func deadLetters() row {
	return row{"Dead letters", [][]panel{
		{
			{title: "Dead letters, by queue", unit: "short", about: "Messages that consumers could not process. Correct the consumer, and redrive them: `belfry dlq start-job`.",
				queries: []query{stored("belfry_queue_dead_letters")}},
			{title: "New dead letters", unit: "cps", alerts: []string{"BelfryDeadLetters"},
				about: "Messages that reached the `retryLimit` or the `maxDeliveries` of their queue, or that a consumer dead-lettered.",
				queries: []query{
					{total(of("belfry_ack_messages_total", `result="dead_lettered"`), "instance"), "acknowledged {{instance}}"},
					rateOf("belfry_messages_given_up_total", "maxDeliveries"),
				}},
			{title: "Expired messages", unit: "cps", about: "Messages that a group skipped because of `expireAfterSeconds`. If that is not intended, add consumers.",
				queries: []query{rateOf("belfry_messages_expired_total", "expired")}},
		},
		{
			{title: "Messages that cannot be decrypted", unit: "cps", alerts: []string{"BelfryMessagesUnopened"},
				about:   "The instance lacks the key. Add it to `encryption.keys`. The other partitions are delivered.",
				queries: []query{rateOf("belfry_pops_unopened_total", "not decrypted")}},
			{title: "Messages refused without a key", unit: "cps", alerts: []string{"BelfryPushesWithoutKey"},
				about:   "The queue has `encryptionEnabled`, and the instance has no key. Set `encryption.keys` as on the other instances.",
				queries: []query{rateOf("belfry_messages_refused_without_key_total", "refused")}},
			{title: "Pops that failed at a message", unit: "cps", about: "Postgres cannot read a message, or `http.max_inflight_bytes` has no room for it. The log names the message.",
				queries: []query{rateOf("belfry_claims_unreadable_total", "unreadable"), rateOf("belfry_pops_without_memory_total", "no memory")}},
		},
	}}
}

func spool() row {
	return row{"Spool", [][]panel{{
		{title: "Messages in the spool", unit: "short", about: "Pushes that wait for the end of push maintenance. They are on the disk of the instance: keep its volume.",
			queries: []query{gauge("belfry_spool_messages", "waiting"), gauge("belfry_spool_rejected_messages", "rejected")}},
		{title: "Size of the spool", unit: "bytes", about: "Bytes on the disk of the instance. `spool.max_bytes` limits them.",
			queries: []query{gauge("belfry_spool_bytes", "size")}},
		{title: "Time of a write to the spool", unit: "s", about: "Time of a durable write (p99). It is the time of the disk of the instance.",
			queries: []query{quantile(0.99, "belfry_spool_write_seconds", "instance", "p99 {{instance}}")}},
	}}}
}
