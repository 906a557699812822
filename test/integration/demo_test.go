package integration_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli"
)

// belfry demo must fill two queues. It makes invoices from orders, lets the group warehouse fall behind, and produces dead
// letters. When its context ends, it must end without an error. Then a redrive must succeed.
func TestDemoRunsAShop(t *testing.T) {
	t.Parallel()
	s := start(t)
	x := &terminal{t: t, server: s.base, ran: map[string]bool{}}
	root := &cobra.Command{Use: "belfry", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(&cobra.Group{ID: cli.GroupID})
	root.AddCommand(cli.Commands()...)
	root.SetOut(io.Discard)
	root.SetArgs([]string{"demo", "--every", "5ms", "--server", s.base})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	pending := func(queue string) float64 {
		n, _ := member(x.json("queue", "get", queue), "totals", "messages", "total").(float64)
		return n
	}
	for _, want := range []struct {
		what string
		seen func() bool
	}{
		{"orders", func() bool {
			code, _, _ := x.run("", "queue", "get", "demo.orders")
			return code == 0 && pending("demo.orders") > 20
		}},
		{"invoices", func() bool { return pending("demo.invoices") > 12 }},
		{"dead letters", func() bool { return member(x.json("dlq", "list", "--queue", "demo.invoices"), "total") == 12.0 }},
		{"a late group", func() bool {
			groups, _ := member(x.json("group", "list"), "groups").([]any)
			return slices.ContainsFunc(groups, func(g any) bool {
				lag, _ := member(g, "lag").(float64)
				return member(g, "name") == "warehouse" && lag > 0
			})
		}},
	} {
		until(t, want.what, want.seen)
	}
	stop()
	require.NoError(t, <-done)
	code, _, problems := x.run("", "dlq", "redrive", "demo.invoices", "--group", "printer", "--all", "--yes")
	require.Zero(t, code, problems)
	require.Equal(t, "0", encode(member(x.json("dlq", "list", "--queue", "demo.invoices"), "total")))
}
