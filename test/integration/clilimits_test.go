package integration_test

import (
	"strings"

	"github.com/stretchr/testify/require"
)

func limitCommands(x *terminal) {
	const set = "QUEUE GROUP CHANGED DRY-RUN BEFORE LIMITS\n"
	x.table(set+"orders - yes no - concurrency=20", "queue", "limit", "orders", "--concurrency", "20")
	x.table("QUEUE LIMITS\norders concurrency=20", "queue", "limit", "orders")
	x.table(set+"orders billing yes yes - concurrency=20 rateLimit={burst=100 messages=100 per=1m}", "group", "limit", "billing", "orders", "--rate", "100/1m", "--dry-run")
	x.table(set+"orders billing yes no - breaker={failures=5 pause=5m pauseMax=10m} concurrency=20 fair=true rateLimit={burst=7 messages=100 per=1m}",
		"group", "limit", "billing", "orders", "--rate", "100/1m", "--burst", "7", "--fair", "--breaker-failures", "5", "--breaker-pause", "5m")
	limits := func() string { return encode(member(x.json("group", "limit", "billing", "orders"), "limits")) }
	x.json("group", "limit", "billing", "orders", "--concurrency", "none", "--breaker-failures", "none", "--fair=false")
	require.JSONEq(x.t, `{"rateLimit":{"messages":100,"per":"1m","burst":7}}`, limits(), "limits without a flag stay")
	x.table("QUEUE GROUP SOURCE LIMITS LIVE-LEASES TOKENS LIMITED-UNTIL\norders billing group rateLimit={burst=7 messages=100 per=1m} - 7 -", "group", "limit", "billing", "orders")
	for flags, want := range map[string]string{
		"--rate 100": "--rate is", "--burst x": "--burst is", "--concurrency many": "--concurrency is", "--breaker-pause 9s": "needs --breaker-failures", "--remove --fair": "--remove removes all",
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
