package integration_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli"
	"github.com/belfry-mq/belfry/pkg/cli/manifest"
)

func fileCommands(x *terminal) {
	_, exported, _ := x.run("", "export")
	code, out, problems := x.run(exported, "apply", "-f", "-", "--dry-run")
	require.Equal(x.t, []any{0, "nothing to change\n"}, []any{code, out}, problems)
	wanted := "queues:\n- name: made\n  options: {leaseTime: 9}\n  limits: {concurrency: 7}\n- name: orders\n  paused: true\n  options: {retryLimit: 4}\ngroups:\n- {name: g, queue: lines, paused: true}\n- {name: later, queue: orders, limits: {rateLimit: {messages: 60, per: 60s}}}\n"
	plan := "create queue made leaseTime=9\nset the default limits of queue made: {\"concurrency\":7}\nchange queue orders: retryLimit: 0 -> 4\npause queue orders\npause group g of lines\n" +
		"set the limits of group later of orders: {\"rateLimit\":{\"messages\":60,\"per\":\"1m\",\"burst\":60}}\n"
	code, out, problems = x.run(wanted, "apply", "-f", "-", "--dry-run")
	require.Equal(x.t, []any{2, plan}, []any{code, out}, problems)
	code, out, problems = x.run(wanted, "apply", "-f", "-")
	require.Equal(x.t, []any{0, plan}, []any{code, out}, problems)
	code, out, problems = x.run(wanted, "apply", "-f", "-")
	require.Equal(x.t, []any{0, "nothing to change\n"}, []any{code, out}, problems)
	require.Equal(x.t, []any{60.0, 7.0, 4.0}, []any{
		member(x.json("queue", "get", "orders"), "queue", "options", "leaseTime"), member(x.json("queue", "get", "orders"), "queue", "options", "priority"),
		member(x.json("queue", "get", "orders"), "queue", "options", "retryLimit"),
	}, "other options must stay")
	_, exported, _ = x.run("", "export")
	code, out, problems = x.run(exported, "apply", "-f", "-", "--dry-run")
	require.Equal(x.t, []any{0, "nothing to change\n"}, []any{code, out}, problems)
	require.Contains(x.t, exported, "limits: {rateLimit: {messages: 60, per: 1m, burst: 60}}")
	code, out, problems = x.run("queues: [{name: made, limits: {concurrency: 8}}]", "apply", "-f", "-", "--dry-run")
	require.Equal(x.t, []any{2, "change the default limits of queue made: {\"concurrency\":7} -> {\"concurrency\":8}\n"}, []any{code, out}, problems)
	code, _, problems = x.run("queues: [{name: made, limits: {concurrency: 10001}}]", "apply", "-f", "-")
	require.NotZero(x.t, code)
	require.Contains(x.t, problems, "default limits of queue made: ")
	require.Contains(x.t, problems, "concurrency is 10001")
	code, _, problems = x.run("queues: [{name: made, limits: {concurency: 1}}]", "apply", "-f", "-")
	require.Equal(x.t, 2, code)
	require.Contains(x.t, problems, "concurency")
	code, out, problems = x.run("queues:\n- name: orders\n", "apply", "-f", "-")
	require.Equal(x.t, []any{0, "nothing to change\n"}, []any{code, out}, problems, "a queue must stay paused if the file does not mention the pause")
	code, _, problems = x.run("", "apply", "-f", "-", "--prune", "--yes")
	require.Equal(x.t, 2, code, "an empty file must delete nothing")
	require.Contains(x.t, problems, "would delete every queue")
	code, _, problems = x.run("queues: [{name: x, options: {leasetime: 1}}]", "apply", "-f", "-")
	require.Equal(x.t, 2, code)
	require.Contains(x.t, problems, "did you mean leaseTime?")
	code, out, problems = x.run(wanted, "apply", "-f", "-", "--prune", "--yes")
	require.Zero(x.t, code, problems)
	require.Contains(x.t, out, "delete queue failing\n")
	code, _, _ = x.run("queues: [{nme: x}]", "apply", "-f", "-")
	require.Equal(x.t, 2, code, "an unknown key must be refused")
}

func contextCommands(x *terminal) {
	code, _, _ := x.run("", "context", "use", "none")
	require.Equal(x.t, 2, code)
	code, _, problems := x.run("", "context", "add", "here", "--server", x.server)
	require.Zero(x.t, code, problems)
	for _, args := range [][]string{{"add", "there", "--server", "http://127.0.0.1:1", "--token", "secret"}, {"use", "there"}} {
		code, _, problems = x.run("", append([]string{"context"}, args...)...)
		require.Zero(x.t, code, problems)
	}
	info, err := os.Stat(os.Getenv("BELFRY_CONTEXTS"))
	require.NoError(x.t, err)
	require.Equal(x.t, os.FileMode(0o600), info.Mode().Perm())
	x.table("NAME SERVER TOKEN CURRENT\nhere http://HOST no no\nthere http://HOST yes yes", "context", "list")
	code, _, problems = x.run("", "context", "remove", "there")
	require.Zero(x.t, code, problems)
	x.run("", "context", "use", "here")
	code, _, problems = x.run("", "context", "add", "here", "--server", x.server, "--token", "secret")
	require.Zero(x.t, code, problems)
	code, _, problems = x.run("", "context", "add", "here", "--ca-file", "")
	require.Zero(x.t, code, problems)
	x.table("NAME SERVER TOKEN CURRENT\nhere http://HOST yes yes", "context", "list")
	_, _, problems = x.run("", "context", "add", "here", "--server", "http://127.0.0.1:2")
	require.Contains(x.t, problems, "the token was removed")
	x.table("NAME SERVER TOKEN CURRENT\nhere http://HOST no yes", "context", "list")
}

// A payload must not control the terminal. No output may lose characters of it.
func TestPayloadsArePrintedSafely(t *testing.T) {
	t.Parallel()
	s := start(t)
	x := &terminal{t: t, server: s.base, ran: map[string]bool{}}
	code, _, problems := x.run("", "push", "q", `"\ud83d\ude00 a\u001b[31mb\fc true"`)
	require.Zero(t, code, problems)
	_, out, _ := x.run("", "pop", "q", "--group", "a", "--auto-ack")
	require.Contains(t, out, "😀 a·[31mb·c true\n")
	_, out, _ = x.run("", "pop", "q", "--group", "b", "--auto-ack", "-o", "yaml")
	require.Contains(t, out, `data: "\U0001F600 a\e[31mb\fc true"`)
}

// Push must send the lines of a slow pipe while the pipe is open. An interrupt ends the command without losing lines that
// were read.
func TestPushOfASlowPipe(t *testing.T) {
	t.Parallel()
	s := start(t)
	reader, writer := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	root := &cobra.Command{Use: "belfry", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(&cobra.Group{ID: cli.GroupID})
	root.AddCommand(cli.Commands()...)
	var out bytes.Buffer
	root.SetIn(reader)
	root.SetOut(&out)
	root.SetArgs([]string{"push", "slow", "--server", s.base, "-o", "json"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	_, err := io.WriteString(writer, "1\n2\n")
	require.NoError(t, err)
	x := &terminal{t: t, server: s.base, ran: map[string]bool{}}
	for got := 0; got < 2; { // the lines may arrive in two pushes
		messages, _ := x.json("pop", "slow", "--batch", "9", "--auto-ack", "--wait", "30s").([]any)
		require.NotEmpty(t, messages)
		got += len(messages)
	}
	interrupt()
	require.NoError(t, <-ended)
	require.JSONEq(t, `{"queued":2,"duplicate":0,"buffered":0}`, out.String())
	require.NoError(t, writer.Close())
}

// Apply must change only the settings that its file names. It must keep a change that another operator makes after apply
// has read the queue.
func TestApplyChangesOnlySettingsInTheFile(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	operator := goClient(t, c.server)
	set := func(body string) { ask[any](c, post("/api/v1/configure", body)).ok(http.StatusOK) }
	set(`{"queue":"orders","namespace":"shop","task":"sell","options":{"leaseTime":60,"priority":7}}`)
	wanted, err := manifest.Read([]byte("queues:\n- name: orders\n  task: pack\n  options: {retryLimit: 4}\n"))
	require.NoError(t, err)
	steps, err := manifest.Steps(t.Context(), operator, wanted)
	require.NoError(t, err)
	require.Len(t, steps, 1)
	set(`{"queue":"orders","namespace":"mall","task":"sell","options":{"leaseTime":90}}`)
	require.NoError(t, operator.Do(t.Context(), steps[0].Request, nil))
	now, _, err := manifest.SettingsOf(t.Context(), operator, "orders")
	require.NoError(t, err)
	require.Equal(t, []any{"mall", "pack", int64(90), int64(4), int64(0)},
		[]any{now.Namespace, now.Task, now.Options["leaseTime"], now.Options["retryLimit"], now.Options["priority"]})
}
