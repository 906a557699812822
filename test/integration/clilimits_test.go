package integration_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
)

func limitCommands(x *terminal) {
	const set = "QUEUE GROUP CHANGED DRY-RUN BEFORE LIMITS\n"
	x.table(set+"orders - yes no - concurrency=20", "queue", "limit", "orders", "--concurrency", "20")
	x.table("QUEUE LIMITS\norders concurrency=20", "queue", "limit", "orders")
	x.table(set+"orders billing yes yes - concurrency=20 rateLimit={burst=100 messages=100 per=1m}", "group", "limit", "billing", "orders", "--rate", "100/1m", "--dry-run")
	x.table(set+"orders billing yes no - breaker={failures=5 pause=5m pauseMax=10m} concurrency=20 rateLimit={burst=7 messages=100 per=1m}",
		"group", "limit", "billing", "orders", "--rate", "100/1m", "--burst", "7", "--breaker-failures", "5", "--breaker-pause", "5m")
	limits := func() string { return encode(member(x.json("group", "limit", "billing", "orders"), "limits")) }
	x.json("group", "limit", "billing", "orders", "--concurrency", "none", "--breaker-failures", "none")
	require.JSONEq(x.t, `{"rateLimit":{"messages":100,"per":"1m","burst":7}}`, limits(), "limits without a flag stay")
	x.table("QUEUE GROUP SOURCE LIMITS LIVE-LEASES TOKENS LIMITED-UNTIL\norders billing group rateLimit={burst=7 messages=100 per=1m} - 7 -", "group", "limit", "billing", "orders")
	for flags, want := range map[string]string{
		"--rate 100": "--rate is", "--burst x": "--burst is", "--concurrency many": "--concurrency is", "--breaker-pause 9s": "needs --breaker-failures", "--remove --burst 9": "--remove removes all",
	} {
		code, _, problems := x.run("", append([]string{"group", "limit", "billing", "orders"}, strings.Fields(flags)...)...)
		require.Equal(x.t, 2, code, flags)
		require.Contains(x.t, problems, want)
	}
	x.json("group", "limit", "billing", "orders", "--remove")
	require.Equal(x.t, "queue", member(x.json("group", "limit", "billing", "orders"), "source"))
	x.json("queue", "limit", "orders", "--remove")
	require.Equal(x.t, "null", limits())
	code, _, problems := x.run("", "group", "limit", "billing", "nowhere", "--concurrency", "5")
	require.Equal(x.t, 1, code, problems)
}

// flowCommands runs the commands of breakers and blocked partitions with a queue of its own.
func flowCommands(x *terminal) {
	x.json("queue", "configure", "hard", "--option", "retryLimit=0")
	x.json("group", "limit", "billing", "hard", "--on-exhausted", "block", "--breaker-failures", "9", "--breaker-pause", "5m")
	x.run("", "push", "hard", "1", "--transaction-id", "a", "--partition", "p")
	popped := x.json("pop", "hard", "--group", "billing", "--wait", "10s")
	x.json("ack", fmt.Sprint(member(popped, 0, "partitionId")), "a", "--group", "billing", "--lease-id", fmt.Sprint(member(popped, 0, "leaseId")), "--status", "failed", "--error", "no paper")
	x.table("PARTITION TRANSACTION-ID FAILURES DELIVERIES WAITING BLOCKED ERROR\np a 1 1 1 AGE no paper", "group", "blocked", "billing", "hard")
	code, _, problems := x.run("", "group", "unblock", "billing", "hard", "p")
	require.Equal(x.t, []any{2, true}, []any{code, strings.Contains(problems, "give --action")}, problems)
	x.table("would unblock the partition \"p\" for the group \"billing\"", "group", "unblock", "billing", "hard", "p", "--action", "skip", "--dry-run")
	x.table("GROUP QUEUE PARTITION ACTION TRANSACTION-ID\nbilling hard p skip a", "group", "unblock", "billing", "hard", "p", "--action", "skip")
	require.Empty(x.t, member(x.json("group", "blocked", "billing", "hard"), "partitions"))
	for partition, want := range map[string]string{"p": "the partition is not blocked", "none": "not found"} {
		code, _, problems := x.run("", "group", "unblock", "billing", "hard", partition, "--action", "retry")
		require.Equal(x.t, []any{1, true}, []any{code, strings.Contains(problems, want)}, problems)
	}

	const state, changed = "QUEUE GROUP STATE UNTIL OPENINGS OPENED-BY FAILURES-IN-A-ROW REASON\nhard billing ", "QUEUE GROUP CHANGED OPEN UNTIL\nhard billing "
	x.table(state+"closed - 0 - 1 -", "group", "breaker", "billing", "hard")
	x.table("would open the breaker of the group \"billing\" in the queue \"hard\" for 9m", "group", "breaker", "billing", "hard", "--open", "9m", "--dry-run")
	x.table(changed+"yes yes AT", "group", "breaker", "billing", "hard", "--open", "9m", "--reason", "the bank is down")
	x.table(state+"open AT 1 operator 1 the bank is down", "group", "breaker", "billing", "hard")
	x.table("would close the breaker of the group \"billing\" in the queue \"hard\"", "group", "breaker", "billing", "hard", "--close", "--dry-run")
	x.table(changed+"yes no -", "group", "breaker", "billing", "hard", "--close")
	x.table(changed+"no no -", "group", "breaker", "billing", "hard", "--close")
	for flags, want := range map[string]string{"--open 5m --close": "not both", "--reason x": "belongs to --open", "--open soon": "duration from 1ms"} {
		code, _, problems := x.run("", append([]string{"group", "breaker", "billing", "hard"}, strings.Fields(flags)...)...)
		require.NotZero(x.t, code, flags)
		require.Contains(x.t, problems, want)
	}
	x.json("group", "limit", "billing", "hard", "--remove")
	x.json("queue", "delete", "hard", "--yes")
}
