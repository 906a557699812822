package integration_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// newTerminal returns a terminal with a new server and without contexts.
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	t.Setenv("BELFRY_CONTEXTS", filepath.Join(t.TempDir(), "contexts.yaml"))
	return &terminal{t: t, server: start(t).base, ran: map[string]bool{}}
}

// deadLetter makes the next message of a queue a dead letter of a group.
func (x *terminal) deadLetter(queueName, group string) {
	x.t.Helper()
	args := []string{"--group", group}
	if group == "" {
		args = nil
	}
	popped := x.json(append([]string{"pop", queueName}, args...)...)
	code, _, problems := x.run("", append([]string{"ack", fmt.Sprint(member(popped, 0, "partitionId")), fmt.Sprint(member(popped, 0, "transactionId")),
		"--status", "dlq", "--lease-id", fmt.Sprint(member(popped, 0, "leaseId"))}, args...)...)
	require.Zero(x.t, code, problems)
}

// Without --group, redrive and purge apply to all groups. With a group that does not exist they must fail.
func TestDeadLettersOfAllGroups(t *testing.T) {
	x := newTerminal(t)
	x.run("", "push", "shop", "1", "--transaction-id", "a")
	x.run("", "push", "shop", "2", "--transaction-id", "b")
	for _, group := range []string{"billing", "billing", "mail", ""} {
		x.deadLetter("shop", group)
	}
	for _, command := range []string{"redrive", "purge"} {
		code, _, problems := x.run("", "dlq", command, "shop", "--group", "biling", "--all", "--yes")
		require.Equal(t, 1, code, command)
		require.Contains(t, problems, `"biling"`, command)
		code, _, problems = x.run("", "dlq", command, "shop")
		require.Equal(t, 2, code, command)
		require.Contains(t, problems, "--all", command)
		require.EqualValues(t, 4, member(x.json("dlq", command, "shop", "--all", "--dry-run"), "matched"), command)
	}
	require.EqualValues(t, 1, member(x.json("dlq", "purge", "shop", "--group", "billing", "--transaction-id", "a", "--yes"), "purged"))
	require.EqualValues(t, 3, member(x.json("dlq", "redrive", "shop", "--all", "--yes"), "redriven"))
	require.EqualValues(t, 0, member(x.json("dlq", "redrive", "shop", "--all", "--yes"), "matched"), "no dead letter may remain")
	for _, group := range []string{"billing", "mail"} {
		require.Len(t, x.json("pop", "shop", "--group", group), 1, group)
	}
	require.Len(t, x.json("pop", "shop"), 1)
}

// --to-queue moves the dead letters of all groups to another queue. A message that is a dead letter of two groups must
// arrive once.
func TestDeadLettersAreMovedToAnotherQueue(t *testing.T) {
	x := newTerminal(t)
	x.run("", "push", "shop", "1", "--transaction-id", "a")
	x.run("", "push", "shop", "2", "--transaction-id", "b")
	for _, group := range []string{"billing", "billing", "mail"} {
		x.deadLetter("shop", group)
	}
	move := []string{"dlq", "redrive", "shop", "--all", "--yes", "--to-queue", "parked"}
	code, _, problems := x.run("", move...)
	require.Equal(t, 1, code)
	require.Contains(t, problems, `queue "parked" does not exist`)
	x.run("", "queue", "create", "parked")
	require.EqualValues(t, 3, member(x.json(append(move, "--dry-run")...), "matched"))
	require.EqualValues(t, 3, member(x.json(move...), "redriven"))
	require.EqualValues(t, 0, member(x.json("dlq", "list"), "total"))
	for _, id := range []string{"a", "b"} {
		popped := x.json("pop", "parked", "--auto-ack", "--wait", "60s")
		require.Equal(t, id, member(popped, 0, "transactionId"))
	}
	code, _, _ = x.run("", "pop", "parked")
	require.Equal(t, 4, code)
}

// missingID is an id that no object has.
const missingID = "5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11"

// A command for a missing object must fail, also as a dry run. With --if-exists it must succeed.
func TestCommandsForMissingObjectsFail(t *testing.T) {
	x := newTerminal(t)
	x.run("", "push", "shop", "1")
	for _, line := range []string{
		"queue get nosuch", "queue delete nosuch --yes", "queue pause nosuch", "queue resume nosuch", "queue purge nosuch --yes",
		"partition list nosuch", "partition pause nosuch p", "partition resume shop nosuch",
		"group get nosuch", "group seek nosuch shop --to-end --yes", "group seek g nosuch --to-end --yes", "group pause nosuch shop", "group resume nosuch shop",
		"group delete nosuch --yes", "group delete nosuch --queue shop --yes", "replay shop --group nosuch --to 1h --yes",
		"dlq list --queue nosuch", "dlq list --queue shop --group nosuch", "dlq show shop nosuch", "dlq export --queue nosuch",
		"dlq redrive nosuch --all --yes", "dlq redrive shop --group nosuch --all --yes", "dlq purge nosuch --all --yes", "dlq purge shop --group nosuch --all --yes",
		"messages list --queue nosuch", "messages get " + missingID + " nosuch", "messages delete " + missingID + " nosuch --yes",
		"messages dlq " + missingID + " nosuch --yes", "messages retry " + missingID + " nosuch", "streams delete " + missingID + " --yes",
	} {
		code, _, problems := x.run("", strings.Fields(line)...)
		require.Equal(t, 1, code, "%s: %s", line, problems)
		require.NotEmpty(t, problems, line)
		if cmd := x.command(line); cmd.Flags().Lookup("dry-run") != nil {
			code, out, problems := x.run("", append(strings.Fields(line), "--dry-run")...)
			require.Equal(t, 1, code, "%s --dry-run: %s%s", line, out, problems)
		}
		if cmd := x.command(line); cmd.Flags().Lookup("yes") != nil {
			code, _, problems = x.run("", append(strings.Fields(line), "--if-exists")...)
			require.Zero(t, code, "%s --if-exists: %s", line, problems)
		}
	}
	code, _, _ := x.run("", "pop", "nosuch")
	require.Equal(t, 4, code, "a pop of a missing queue must give exit code 4, because the queue may be created later")
}

// A dry run must print in words and counts what the command would change. It must not print a request.
func TestDryRunsCount(t *testing.T) {
	x := newTerminal(t)
	x.run("", "push", "shop", "1", "--transaction-id", "a")
	x.run("", "push", "shop", "2", "--transaction-id", "b")
	x.json("pop", "shop", "--group", "g", "--auto-ack")
	for line, want := range map[string]string{
		"queue delete shop":                          "would delete the queue \"shop\" with all its messages\nQUEUE TOTAL PENDING PROCESSING PARTITIONS DEAD-LETTERS\nshop 2 1 0 1 0",
		"group seek g shop --to-end":                 "would move the group \"g\" in the queue \"shop\"\nGROUP QUEUE AGAIN SKIPPED LEASES-ENDED\ng shop 0 1 0",
		"replay shop --group g --to 1h":              "would move the group in the queue \"shop\"\nGROUP QUEUE AGAIN SKIPPED LEASES-ENDED\ng shop 1 0 0",
		"queue purge shop":                           "would move all groups of the queue \"shop\" to its end\nGROUP QUEUE SKIPPED LEASES-ENDED\ng shop 1 0",
		"queue pause shop":                           "would pause the queue \"shop\"",
		"queue configure shop --option leaseTime=60": "change queue shop: leaseTime: 300 -> 60",
		"queue create new --option leaseTime=60":     "create queue new leaseTime=60",
	} {
		x.table(want, append(strings.Fields(line), "--dry-run")...)
	}
	x.table("GROUP QUEUE SKIPPED LEASES-ENDED\ng shop 1 0", "queue", "purge", "shop", "--yes")
	code, _, _ := x.run("", "pop", "shop", "--group", "g")
	require.Equal(t, 4, code, "no message may remain")
}

// pop must print the command that acknowledges its message. The printed command must work unchanged. While it waits, pop
// must say so.
func TestPopPrintsTheAcknowledgment(t *testing.T) {
	x := newTerminal(t)
	x.run("", "queue", "configure", "shop", "--namespace", "tea", "--task", "sell")
	x.run("", "push", "shop", "1", "--transaction-id", "it's")
	code, _, hints := x.run("", "pop", "--namespace", "tea", "--task", "sell", "--group", "g", "--wait", "5s")
	require.Zero(t, code, hints)
	require.Contains(t, hints, "waiting at most 5s")
	_, line, found := strings.Cut(hints, "belfry ack ")
	require.True(t, found, hints)
	line, _, _ = strings.Cut(line, "\n")
	require.Contains(t, line, `'it'\''s'`)
	args := strings.Fields(strings.ReplaceAll(line, `'it'\''s'`, "it's"))
	code, _, problems := x.run("", append([]string{"ack"}, args...)...)
	require.Zero(t, code, problems)
	code, _, _ = x.run("", "pop")
	require.Equal(t, 2, code, "a pop without a queue must fail")
}

// If a list is empty and the token has grants, the command must print the grants on standard error. Otherwise it must print
// nothing there.
func TestAnEmptyListNamesTheGrants(t *testing.T) {
	t.Parallel()
	option, made := withSecret(t)
	s := start(t, option)
	x := &terminal{t: t, server: s.base, token: made("ops", identity.Admin, nil), ran: map[string]bool{}}
	lists := [][]string{{"queue", "list"}, {"group", "list"}, {"dlq", "list"}, {"messages", "list"}}
	for _, args := range [][]string{{"push", "q", "1"}, {"pop", "q", "--group", "g", "--quiet"}} {
		code, _, problems := x.run("", args...)
		require.Zero(t, code, problems)
	}
	for _, grants := range []*identity.Grants{nil, {Read: []string{"other.*"}}} {
		x.token = made("t", identity.Admin, grants)
		for _, args := range lists {
			_, _, problems := x.run("", args...)
			if grants == nil {
				require.Empty(t, problems, "%v", args)
			} else {
				require.Contains(t, problems, `the token shows only objects that its grants allow: {"read":["other.*"]`, "%v", args)
			}
		}
	}
}
