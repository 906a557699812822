package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/cli"
	"github.com/belfry-mq/belfry/pkg/cli/manifest"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

// terminal runs commands against a server.
type terminal struct {
	t      *testing.T
	server string
	token  string
	// ran has the paths of the commands that were run.
	ran map[string]bool
}

// program returns a new root command with all commands, as in a new process.
func program() *cobra.Command {
	root := &cobra.Command{Use: "belfry", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(&cobra.Group{ID: cli.GroupID})
	root.AddCommand(cli.Commands()...)
	return root
}

// command returns the command that a command line names.
func (x *terminal) command(line string) *cobra.Command {
	x.t.Helper()
	cmd, _, err := program().Find(strings.Fields(line))
	require.NoError(x.t, err, line)
	return cmd
}

// run runs a command line and returns its exit code and outputs.
func (x *terminal) run(stdin string, args ...string) (code int, stdout, stderr string) {
	x.t.Helper()
	root := program()
	var out, problems bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&problems)
	if cmd, _, err := root.Find(args); err == nil && cmd.Flags().Lookup("context") != nil {
		args = append(args, "--server", x.server)
		if x.token != "" {
			args = append(args, "--token", x.token)
		}
	}
	root.SetArgs(args)
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	cmd, err := root.ExecuteContextC(ctx)
	x.ran[cmd.CommandPath()] = true
	if err != nil {
		var printed bool
		if code, printed = session.ExitCode(err); printed {
			problems.WriteString(err.Error())
		}
	}
	return code, out.String(), problems.String()
}

var volatile = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "AT"},
	{regexp.MustCompile(`\b(in )?\d+s\b`), "AGE"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(` +`), " "},
}

// table runs a command and compares its table. Columns are separated by one space. Values that differ in each run are
// replaced.
func (x *terminal) table(want string, args ...string) {
	x.t.Helper()
	code, out, problems := x.run("", args...)
	require.Zero(x.t, code, "%v: %s", args, problems)
	for _, v := range volatile {
		out = v.pattern.ReplaceAllString(out, v.text)
	}
	require.Equal(x.t, want, strings.TrimSpace(out), "%v", args)
}

// json runs a command with -o json and returns its output.
func (x *terminal) json(args ...string) any {
	x.t.Helper()
	code, out, problems := x.run("", append(args, "-o", "json")...)
	require.Zero(x.t, code, "%v: %s", args, problems)
	var value any
	require.NoError(x.t, json.Unmarshal([]byte(out), &value), "%v: %s", args, out)
	return value
}

// leaves returns all commands without subcommands.
func leaves(cmds []*cobra.Command) (all []*cobra.Command) {
	for _, c := range cmds {
		if c.HasSubCommands() {
			all = append(all, leaves(c.Commands())...)
		} else {
			all = append(all, c)
		}
	}
	return all
}

// Each command and each flag must have a help text.
func TestCommandsHaveHelp(t *testing.T) {
	t.Parallel()
	for _, c := range leaves(cli.Commands()) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		c.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "%s --%s", c.CommandPath(), f.Name) })
	}
}

// TestCommands runs each command at least once, and compares its table, JSON or exit code.
func TestCommands(t *testing.T) {
	home := t.TempDir()
	t.Setenv("BELFRY_CONTEXTS", filepath.Join(home, "contexts.yaml"))
	s := start(t)
	x := &terminal{t: t, server: s.base, ran: map[string]bool{}}
	for _, step := range []func(x *terminal){queueCommands, flowCommands, messageCommands, groupCommands, deadLetterCommands, operatorCommands, repairCommands, scheduleCommands, fileCommands, contextCommands} {
		step(x)
	}
	var missing []string
	for _, c := range leaves(cli.Commands()) {
		if path := "belfry " + c.CommandPath(); !x.ran[path] {
			missing = append(missing, path)
		}
	}
	require.Empty(t, missing, "each command must have a test")
}

func queueCommands(x *terminal) {
	code, out, _ := x.run("", "pop", "orders")
	require.Equal(x.t, []any{4, ""}, []any{code, out}, "an empty queue must give exit code 4 and no output")
	x.table("QUEUE NAMESPACE TASK OPTIONS\norders shop mail leaseTime=60 ttl=3600", "queue", "configure", "orders", "--namespace", "shop", "--task", "mail",
		"--option", "retryLimit=0", "--options", `{"leaseTime": 60}`)
	x.table("QUEUE NAMESPACE TASK OPTIONS\norders shop mail leaseTime=60 priority=7 retryBackoff=2 retryDelayMax=60000 ttl=3600", "queue", "configure", "orders", "--option", "priority=7")
	code, _, problems := x.run("", "queue", "configure", "orders", "--option", "leaseTim=5")
	require.Equal(x.t, 2, code)
	require.Contains(x.t, problems, "did you mean leaseTime?")
	_, _, problems = x.run("", "queue", "configure", "orders", "--option", "retryDelay=1000", "--dry-run")
	require.Empty(x.t, problems)
	options, _ := member(x.json("queue", "get", "orders"), "queue", "options").(map[string]any)
	require.ElementsMatch(x.t, manifest.Options, slices.Collect(maps.Keys(options)), "manifest.Options must list the options of the server")
	x.table("QUEUE NAMESPACE TASK PAUSED AGE OPTIONS\norders shop mail no AGE leaseTime=60 priority=7 retryBackoff=2 retryDelayMax=60000 ttl=3600", "queue", "get", "orders")
	x.table("STATUS QUEUE TRANSACTION-ID MESSAGE-ID\nqueued orders a ID", "push", "orders", `{"id": 1}`, "--transaction-id", "a", "--header", "tenant=acme")
	require.Equal(x.t, "acme", member(x.json("messages", "list", "--queue", "orders"), "messages", 0, "headers", "tenant"))
	_, out, _ = x.run("", "queue", "list", "--sort", "oldest")
	require.Regexp(x.t, `^QUEUE +PARTITIONS +TOTAL +PENDING +PROCESSING +DEAD +OLDEST-SECONDS +PAUSED +AGE\norders +1 +1 +1 +0 +0 +\d+ +no +\d+`, out)
	require.Equal(x.t, "orders", member(x.json("queue", "list"), "queues", 0, "name"))
	x.table("QUEUE PARTITION GROUP PAUSED CHANGED\norders - - yes yes", "queue", "pause", "orders")
	x.table("QUEUE PARTITION GROUP PAUSED CHANGED\norders - - no yes", "queue", "resume", "orders")
	limitCommands(x)
	x.table("QUEUE PARTITION GROUP PAUSED CHANGED\norders Default - yes yes", "partition", "pause", "orders", "Default")
	x.table("PARTITION TOTAL PENDING PROCESSING DEAD PAUSED OLDEST NEWEST\nDefault 1 1 0 0 yes AGE AGE", "partition", "list", "orders")
	x.table("QUEUE PARTITION GROUP PAUSED CHANGED\norders Default - no yes", "partition", "resume", "orders", "Default")
	require.Equal(x.t, "no_group", member(x.json("partition", "get", "orders", "Default"), "code"))
	code, out, _ = x.run("", "queue", "list", "-o", "jsonpath=$.queues[*].name")
	require.Equal(x.t, []any{0, "orders\n"}, []any{code, out})
	code, out, _ = x.run("", "queue", "list", "-o", "ndjson")
	require.Zero(x.t, code)
	require.JSONEq(x.t, `"orders"`, encode(member(parse(x.t, out), "name")))
	_, out, _ = x.run("", "queue", "get", "orders", "-o", "yaml")
	require.Contains(x.t, out, "\n    leaseTime: 60\n")
	code, _, problems = x.run("", "queue", "list", "-o", "xml")
	require.Equal(x.t, 2, code, problems)
	x.table("NAMESPACE QUEUES PARTITIONS TOTAL PENDING\nshop 1 1 1 1", "namespace", "list")
	x.table("TASK QUEUES PARTITIONS TOTAL PENDING\nmail 1 1 1 1", "task", "list")
	code, out, _ = x.run("", "queue", "delete", "orders", "--dry-run")
	require.Zero(x.t, code)
	require.Contains(x.t, out, "would delete the queue \"orders\"")
	code, _, problems = x.run("", "queue", "delete", "orders")
	require.Equal(x.t, 2, code)
	require.Contains(x.t, problems, "--yes", "without a terminal, a deletion must require --yes")
	x.run("", "queue", "create", "brief")
	x.table("QUEUE DELETED EXISTED\nbrief yes yes", "queue", "delete", "brief", "--yes")
	code, _, _ = x.run("", "queue", "purge", "gone", "--if-exists", "--yes")
	require.Zero(x.t, code, "purging a missing queue with --if-exists must succeed")
}

// member follows names and indexes through decoded JSON. It returns nil for a missing value.
func member(value any, path ...any) any {
	for _, step := range path {
		switch at := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[at]
		case int:
			list, _ := value.([]any)
			if at >= len(list) {
				return nil
			}
			value = list[at]
		}
	}
	return value
}

func parse(t *testing.T, text string) (value any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	return value
}

func messageCommands(x *terminal) {
	code, out, problems := x.run("{\"c\":\"x\",\"n\":1}\n\n{\"c\":\"y\",\"n\":2}\n{\"c\":\"x\",\"n\":3}\n", "push", "lines", "--partition-key", "$.c", "--transaction-key", "$.n", "-o", "json")
	require.Zero(x.t, code, problems)
	require.JSONEq(x.t, `{"queued":3,"duplicate":0,"buffered":0}`, out)
	code, _, problems = x.run("{\"n\":4}\nno json\n", "push", "lines")
	require.Equal(x.t, 1, code)
	require.Contains(x.t, problems, "line 2 is not JSON")
	popped := x.json("pop", "lines", "--batch", "9", "--group", "g", "--wait", "10s", "--partition", "x")
	require.Len(x.t, popped, 2)
	lease, partition := fmt.Sprint(member(popped, 0, "leaseId")), fmt.Sprint(member(popped, 0, "partitionId"))
	x.table("LEASE-ID EXPIRES\nID AT", "extend", lease, "--by", "1m")
	x.table("TRANSACTION-ID SUCCESS LEASE-RELEASED DEAD ERROR\n3 yes yes no -", "ack", partition, "3", "--group", "g", "--lease-id", lease)
	code, _, _ = x.run("", "ack", partition, "3", "--group", "g", "--lease-id", lease)
	require.Equal(x.t, 1, code, "a refused ack must give exit code 1")
	x.table("QUEUE PARTITION TRANSACTION-ID STATUS AGE PARTITION-ID\nlines x 3 completed AGE ID\nlines x 1 completed AGE ID", "messages", "list", "--queue", "lines", "--partition", "x")
	x.table("QUEUE PARTITION TRANSACTION-ID STATUS AGE PAYLOAD\nlines x 3 completed AGE {\"c\":\"x\",\"n\":3}", "messages", "get", partition, "3")
	x.table("TRANSACTION-ID DELETED MESSAGE\n3 yes Message deleted successfully", "messages", "delete", partition, "3", "--yes")
	x.run("", "push", "later", "1", "--transaction-id", "r", "--delay", "1h")
	later := fmt.Sprint(member(x.json("messages", "list", "--queue", "later"), "messages", 0, "partitionId"))
	x.table("TRANSACTION-ID VISIBLE-AT BEFORE\nr AT AT", "messages", "move", later, "r", "--to", "2h")
	x.run("", "queue", "delete", "later", "--yes")
	code, out, problems = x.run("", "tail", "lines", "--group", "t", "--start", "all", "--batch", "9", "--partitions", "9")
	require.Zero(x.t, code, problems)
	require.Contains(x.t, out, `{"c":"y","n":2}`)
	x.table("INDEX TYPE SUCCESS TRANSACTION-ID QUEUE ERROR\n0 push yes t1 sink -", "tx", "--file", write(x.t, `{"operations":[{"type":"push","items":[{"queue":"sink","transactionId":"t1","payload":1}]}]}`))
	code, _, problems = x.run(`{"operations":[{"type":"push","items":[{"queue":"sink","transactionId":"t1","payload":1}]},{"type":"x"}]}`, "tx")
	require.Equal(x.t, 1, code, problems)
}

// TestCommandsOfAReadOnlyToken runs each command that changes something. With a read-only token, and without a token, the
// exit code must be 3.
func TestCommandsOfAReadOnlyToken(t *testing.T) {
	t.Parallel()
	signing := strings.Repeat("s", 32)
	var auth token.Config
	s := start(t, func(cfg *config.Config) {
		cfg.Auth.Enabled, cfg.Auth.Secret = true, setting.Secret(signing)
		auth = cfg.Auth
	})
	readOnly, err := token.Sign(auth, token.Request{Subject: "eyes", Role: identity.ReadOnly, Lifetime: time.Hour}, token.SecretKey(signing))
	require.NoError(t, err)
	admin, err := token.Sign(auth, token.Request{Subject: "hands", Role: identity.Admin, Lifetime: time.Hour}, token.SecretKey(signing))
	require.NoError(t, err)
	x := &terminal{t: t, server: s.base, token: admin, ran: map[string]bool{}}
	for _, args := range [][]string{{"push", "q", "1"}, {"pop", "q", "--group", "g"}} {
		code, _, problems := x.run("", args...)
		require.Zero(t, code, problems)
	}
	some := "5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11"
	for _, args := range [][]string{
		{"push", "q", "1"}, {"pop", "q"}, {"tail", "q", "--group", "g"}, {"ack", some, "t"}, {"extend", some}, {"tx", "-f", write(t, `{"operations":[{"type":"push","queue":"q","payload":1}]}`)},
		{"queue", "configure", "q"}, {"queue", "delete", "q", "--yes"}, {"queue", "pause", "q"}, {"queue", "resume", "q"},
		{"partition", "pause", "q", "p"}, {"partition", "resume", "q", "p"}, {"group", "seek", "g", "q", "--to-end", "--yes"},
		{"group", "pause", "g", "q"}, {"group", "resume", "g", "q"}, {"group", "delete", "g", "--yes"}, {"group", "limit", "g", "q", "--remove"}, {"group", "breaker", "g", "q", "--open", "5m"}, {"group", "unblock", "g", "q", "p", "--action", "skip"}, {"queue", "limit", "q", "--concurrency", "5"}, {"replay", "q", "--to", "1h", "--yes"},
		{"dlq", "redrive", "q", "--all", "--yes"}, {"dlq", "purge", "q", "--all", "--yes"}, {"queue", "purge", "q", "--yes"}, {"messages", "delete", some, "t", "--yes"},
		{"messages", "dlq", some, "t", "--yes"}, {"messages", "retry", some, "t"}, {"streams", "delete", some, "--yes"},
		{"maintenance", "push-on", "--yes"}, {"maintenance", "push-off"}, {"maintenance", "pop-on", "--yes"}, {"maintenance", "pop-off"},
		{"dlq", "resend", some, "t", "--yes"}, {"dlq", "start-job", "q", "--all", "--yes"}, {"dlq", "stop-job", some}, {"messages", "resend", some, "t"}, {"messages", "move", some, "t", "--to", "1h"},
		{"schedule", "set", "s", "--queue", "q", "--every", "1h"}, {"schedule", "run", "s"}, {"schedule", "pause", "s"}, {"schedule", "resume", "s"}, {"schedule", "delete", "s", "--yes"},
		{"messages", "discard", some, "t", "--yes"}, {"audit", "undo", some, "--yes"},
		{"maintenance", "retry"}, {"maintenance", "discard", "--yes"}, {"demo"}, {"apply", "-f", write(t, "queues: [{name: r}]")},
	} {
		x.token = readOnly
		code, _, problems := x.run("", args...)
		require.Equal(t, 3, code, "%v: %s", args, problems)
		require.Contains(t, problems, "403", "%v", args)
		x.token = ""
		code, _, problems = x.run("", args...)
		require.Equal(t, 3, code, "%v: %s", args, problems)
		require.Contains(t, problems, "401", "%v", args)
	}
	for _, c := range leaves(cli.Commands()) {
		if c.Flags().Lookup("dry-run") != nil {
			require.True(t, x.ran["belfry "+c.CommandPath()], c.CommandPath())
		}
	}
}

// write creates a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func groupCommands(x *terminal) {
	rows := x.json("group", "list")
	require.Equal(x.t, "g", member(rows, "groups", 0, "name"))
	x.table("QUEUE PARTITION LAG LAG-SECONDS LEASED CONSUMED LAST-CONSUMED\nlines x 0 0 no 2 AGE", "group", "get", "g")
	require.Equal(x.t, "x", member(x.json("group", "get", "g"), "lines", "partitions", 0, "partition"))
	x.json("group", "lag", "--min-seconds", "1")
	x.json("lag", "--min-seconds", "1")
	x.table("GROUP QUEUE PARTITION MOVED UPDATED\ng lines - 1 -", "group", "seek", "g", "lines", "--to-beginning", "--yes")
	code, _, _ := x.run("", "group", "seek", "g", "lines", "--yes")
	require.Equal(x.t, 2, code, "a seek without a target must fail")
	x.table("GROUP QUEUE PARTITION MOVED UPDATED\ng lines - 1 -", "replay", "lines", "--group", "g", "--to", "1h ago", "--yes")
	x.table("QUEUE PARTITION GROUP PAUSED CHANGED\nlines - g yes yes", "group", "pause", "g", "lines")
	require.Equal(x.t, "group_paused", member(x.json("explain", "--queue", "lines", "--partition", "x", "--group", "g"), "code"))
	x.table("QUEUE PARTITION GROUP PAUSED CHANGED\nlines - g no yes", "group", "resume", "g", "lines")
	code, out, _ := x.run("", "explain", "--queue", "lines", "--partition", "x", "--group", "g")
	require.Zero(x.t, code)
	require.Contains(x.t, out, "└─ partition x\n")
	x.table("GROUP QUEUE PARTITIONS\nt - 3", "group", "delete", "t", "--yes")
}

func deadLetterCommands(x *terminal) {
	for _, id := range []string{"d1", "d2", "d3"} {
		x.run("", "push", "failing", "1", "--transaction-id", id)
	}
	popped := x.json("pop", "failing", "--batch", "9")
	partition, lease := fmt.Sprint(member(popped, 0, "partitionId")), fmt.Sprint(member(popped, 0, "leaseId"))
	for _, id := range []string{"d1", "d2"} {
		x.table("TRANSACTION-ID SUCCESS LEASE-RELEASED DEAD ERROR\n"+id+" yes no yes -", "ack", partition, id, "--status", "dlq", "--error", "no paper", "--lease-id", lease)
	}
	x.table("TRANSACTION-ID GROUP DEAD\nd3 __QUEUE_MODE__ yes", "messages", "dlq", partition, "d3", "--error", "by hand", "--yes")
	x.table("QUEUE PARTITION GROUP TRANSACTION-ID FAILED RETRIES ERROR\nfailing Default __QUEUE_MODE__ d3 AGE 0 by hand\n"+
		"failing Default __QUEUE_MODE__ d2 AGE 0 no paper\nfailing Default __QUEUE_MODE__ d1 AGE 0 no paper", "dlq", "list", "--queue", "failing")
	x.table("QUEUE PARTITION GROUP TRANSACTION-ID FAILED RETRIES ERROR DATA\nfailing Default __QUEUE_MODE__ d1 AGE 0 no paper 1", "dlq", "show", "failing", "d1")
	x.table("COUNT\n3", "dlq", "count", "failing")
	code, out, problems := x.run("", "dlq", "export", "--queue", "failing")
	require.Zero(x.t, code, problems)
	require.Equal(x.t, 3, strings.Count(out, "\n"))
	x.table("TRANSACTION-ID GROUP REDRIVEN\nd3 - 1", "messages", "retry", partition, "d3")
	x.table("QUEUE GROUP DRY-RUN MATCHED REDRIVEN SKIPPED REMAINING\nfailing __QUEUE_MODE__ yes 2 0 0 2", "dlq", "redrive", "failing", "--all", "--dry-run")
	x.table("QUEUE GROUP DRY-RUN MATCHED REDRIVEN SKIPPED REMAINING\nfailing __QUEUE_MODE__ no 1 1 0 0", "dlq", "redrive", "failing", "--transaction-id", "d1", "--yes")
	x.table("QUEUE DRY-RUN MATCHED PURGED REMAINING\nfailing no 1 1 0", "dlq", "purge", "failing", "--all", "--yes")
}

func operatorCommands(x *terminal) {
	x.table("MESSAGE\nPop maintenance is on: until it ends, pops return no messages", "maintenance", "pop-on", "--yes")
	x.table("MESSAGE\nPop maintenance is off", "maintenance", "pop-off")
	x.table("MESSAGE\nPush maintenance is on: the instances keep pushes on their disks until push maintenance ends", "maintenance", "push-on", "--yes")
	x.table("STATUS QUEUE TRANSACTION-ID MESSAGE-ID\nbuffered kept k -", "push", "kept", "1", "--transaction-id", "k")
	x.table("PUSH-MAINTENANCE POP-MAINTENANCE BUFFERED REJECTED HEALTHY\nyes no 1 0 yes", "maintenance", "show")
	x.table("MESSAGE\nPush maintenance is off: the instances now move the messages from their disks to the database", "maintenance", "push-off")
	x.table("QUEUE PARTITION TRANSACTION-ID REJECTED REASON", "maintenance", "rejected")
	x.table("MESSAGES\n0", "maintenance", "retry")
	x.table("MESSAGES\n0", "maintenance", "discard", "--yes")
	require.NotEmpty(x.t, member(x.json("audit", "--action", "maintenance.push"), "entries"))
	x.json("history", "--from", "1h")
	require.Positive(x.t, member(x.json("status"), "queues"))
	x.json("waiting")
	x.json("sweeps")
	x.table("SUBJECT ROLE EXPIRES GRANTS\n- admin - -", "whoami")
	require.Equal(x.t, "healthy", member(x.json("ping"), "status"))
	code, out, _ := x.run("", "metrics", "--match", "belfry_push")
	require.Zero(x.t, code)
	require.Contains(x.t, out, "belfry_push_messages_total")
	x.json("trace", "names")
	x.json("trace", "show", "none")
	x.json("trace", "message", "5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11", "none")
	x.table("NAME SOURCE SINK ID AGE", "streams", "list")
	code, _, _ = x.run("", "streams", "delete", "5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11", "--yes")
	require.Equal(x.t, 1, code, "deleting a missing query must fail")
	code, _, _ = x.run("", "top")
	require.Equal(x.t, 2, code, "top must fail without a terminal")
	code, _, _ = x.run("", "demo", "--every", "0s")
	require.Equal(x.t, 2, code, "demo must refuse the interval 0s (demo_test.go tests demo)")
	code, out, _ = x.run("", "cheat")
	require.Zero(x.t, code)
	require.Contains(x.t, out, "belfry push orders")
}
