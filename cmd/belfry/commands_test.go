//go:build !release

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// documentedRun says how a command of the documentation is run, and what it prints. Spaces count as one.
type documentedRun struct {
	want string
	// before is what the section takes for granted, in the words of a shell, and more is added to the command.
	before, more string
	// until is what a command that runs until it is stopped prints when it does its work, and meanwhile what is run then.
	until, meanwhile string
}

const (
	makeToken = "export BELFRY_AUTH_SECRET=ssssssssssssssssssssssssssssssss; belfry token create --subject a --role admin > token.txt; "
	shopURL   = "postgres://user:secret@db:5432/app"
	serving   = `"msg":"ready"`
	tlsHealth = "belfry health --url https://NAME:6632 --ca-file ca.crt"
)

// onServer are the commands for a database with a server. The queue shop has two messages and is encrypted. One message is a dead letter of
// the group billing.
var onServer = map[string]documentedRun{
	"belfry attach TABLE --queue Q":                                                                         {want: "orders"},
	"belfry attach orders --queue orders --key id":                                                          {want: "orders"},
	"belfry attach public.orders --queue orders --key id":                                                   {want: "orders"},
	"belfry attach orders --queue paid --on update --when \"new.paid AND NOT old.paid\" --payload id,total": {want: "paid"},
	"belfry bench":                          {want: "verified", more: "push --warmup 0s --duration 0.1s --url $BELFRY_SERVER"},
	"belfry attachments":                    {want: "TABLE"},
	"belfry bench end-to-end --duration 8s": {want: "verified", more: "--warmup 0s --duration 0.1s --url $BELFRY_SERVER"},
	"belfry bench push":                     {want: "verified", more: "--warmup 0s --duration 0.1s --url $BELFRY_SERVER"},
	"belfry cheat":                          {want: "belfry push orders"},
	"belfry config":                         {want: "BELFRY_ENCRYPTION_KEY"},
	"belfry demo":                           {until: "A small shop runs"},
	"belfry dev --fresh":                    {until: "Ctrl-C stops"},
	"belfry detach orders":                  {want: "orders"},
	"belfry dlq list --queue QUEUE":         {want: "billing"},
	"belfry dlq purge QUEUE --all":          {want: "shop no 1 1 0", more: "--yes"},
	"belfry dlq redrive QUEUE --all":        {want: "shop billing no 1 1 0 0", more: "--yes"},
	"belfry dlq show QUEUE TRANSACTION-ID":  {want: "no paper"},
	"belfry doctor":                         {want: "OK database_connection"},
	"belfry doctor --database-url URL":      {want: "OK database_connection"},
	"belfry doctor --server URL":            {want: "OK database_connection"},
	"belfry explain --queue QUEUE --partition PARTITION --group GROUP": {want: "partition Default"},
	"belfry group delete GROUP":                                        {want: "GROUP QUEUE PARTITIONS billing", more: "--yes"},
	"belfry group seek GROUP QUEUE --to-end":                           {want: "billing shop - 1", more: "--yes"},
	"belfry health":                                                    {},
	"belfry health --live":                                             {},
	"belfry health --url URL":                                          {},
	"belfry lag":                                                       {want: "billing shop Default 1"},
	"belfry maintenance discard":                                       {want: "0", more: "--yes"},
	"belfry maintenance rejected":                                      {want: "REASON"},
	"belfry maintenance retry":                                         {want: "0"},
	"belfry maintenance show":                                          {want: "PUSH-MAINTENANCE"},
	"belfry metrics --match belfry_batch":                              {want: "belfry_batch"},
	"belfry metrics --match dispatch_refused":                          {want: "dispatch_refused"},
	"belfry metrics --match inbox":                                     {want: "belfry_inbox"},
	"belfry metrics --match intentions_skipped":                        {want: "intentions_skipped"},
	"belfry metrics --match pool":                                      {want: "belfry_pool"},
	"belfry metrics --match preflight_duration":                        {want: "preflight_duration"},
	"belfry queue configure QUEUE --option retentionEnabled=true --option completedRetentionSeconds=604800": {want: "604800"},
	"belfry reseal QUEUE":                           {want: "Queue shop: 2 messages"},
	"belfry reseal QUEUE --check":                   {want: "Queue shop: 2 messages checked."},
	"belfry roles":                                  {want: "TO belfry_producer"},
	"belfry serve":                                  {until: serving},
	"belfry serve 2>&1 | head":                      {want: "serving", before: "export BELFRY_LOG_LEVEL=debug BELFRY_HTTP_ADDR=127.0.0.1:0; "},
	"belfry serve --database-url '" + shopURL + "'": {until: serving},
	"belfry token create --signing-key signing.pem --subject billing --role read-write --ttl 720h --consume 'orders.*:billing' --read 'orders.*'": {want: "eyJ"},
	"belfry token inspect < token.txt":        {want: "accepted", before: makeToken},
	"belfry token revoke":                     {want: "revoked: ", before: makeToken, more: "< token.txt"},
	"belfry token revoke < token.txt":         {want: "revoked: ", before: makeToken},
	"belfry token revoked":                    {want: "REVOKED"},
	"belfry version":                          {want: "belfry "},
	"belfry waiting":                          {want: "OLDEST-SECONDS"},
	"belfry waiting -o jsonpath='$.inbox'":    {want: "{"},
	"belfry waiting -o jsonpath='$.listener'": {want: "{"},
	"BELFRY_HTTP_TLS_CERT_FILE=tls.crt BELFRY_HTTP_TLS_KEY_FILE=tls.key belfry serve": {until: serving, meanwhile: tlsHealth},
}

// onNewDatabase are the commands for a database without a server, in this order. The first ones find no schema.
var onNewDatabase = []string{
	"belfry migrate status", "belfry migrate plan", "belfry migrate up", "belfry import queen --from URL --dry-run", "belfry import queen --from URL", "belfry migrate down N",
}

// newDatabase says what they print. The source has a queue with one message.
var newDatabase = map[string]documentedRun{
	"belfry migrate status":                    {want: "pending 000001"},
	"belfry migrate plan":                      {want: "000001"},
	"belfry migrate up":                        {},
	"belfry import queen --from URL --dry-run": {want: "orders 1 1 0 0 0 0"},
	"belfry import queen --from URL":           {want: "orders 1 1 0 0 0 1"},
	"belfry migrate down N":                    {more: "--yes"},
}

// pidVariable names the file for the process id of belfry.
const pidVariable = "BELFRY_TEST_PID"

// shell runs command lines in a folder.
type shell struct {
	t      *testing.T
	dir    string
	env    []string
	places *strings.Replacer // of what the documentation names with capital letters
}

// newShell returns a shell in which belfry is the test program.
func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nif [ -n \"$%s\" ]; then echo $$ > \"$%[1]s\"; fi\n%s=1 exec %s \"$@\"\n", pidVariable, commandVariable, self)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "belfry"), []byte(script), 0o700)) //nolint:gosec // a program
	home := filepath.Dir(devDir(t))                                                       // the private Postgres of dev has its data there
	return &shell{t: t, dir: t.TempDir(), env: append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "XDG_DATA_HOME="), env...)}
}

// command returns a command line that is ready to start.
func (s *shell) command(line string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), "sh", "-e", "-c", line)
	cmd.Dir, cmd.Env = s.dir, append(slices.Clone(s.env), env...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a command line and returns what it prints, with one space between words.
func (s *shell) run(line string) string {
	s.t.Helper()
	out, err := s.command(line).CombinedOutput()
	if err != nil {
		s.t.Errorf("%s: %v: %s", line, err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

var addrInLog = regexp.MustCompile(`"msg":"ready".*"addr":"([^"]+)"`)

// start starts a command line, and returns when it has printed until. stop ends it with SIGTERM. addr is the address in its log.
func (s *shell) start(line, until string) (addr string, stop func()) {
	s.t.Helper()
	pid := filepath.Join(s.t.TempDir(), "pid")
	cmd := s.command(line, pidVariable+"="+pid, "BELFRY_HTTP_ADDR=127.0.0.1:0")
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(s.t, cmd.Start())
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	text := out.await(ctx, s.t, until)
	if match := addrInLog.FindStringSubmatch(text); match != nil {
		addr = match[1]
	}
	return addr, func() {
		written, err := os.ReadFile(pid)
		require.NoError(s.t, err)
		var process int
		_, err = fmt.Sscan(string(written), &process)
		require.NoError(s.t, err)
		require.NoError(s.t, syscall.Kill(process, syscall.SIGTERM))
		require.NoError(s.t, cmd.Wait(), "%s: %s", line, out.String())
	}
}

// do runs a command of the documentation.
func (s *shell) do(script string, c documentedRun) {
	s.t.Helper()
	script = c.before + strings.TrimSpace(s.places.Replace(script)+" "+c.more)
	if c.until == "" {
		if out := s.run(script); !strings.Contains(out, c.want) {
			s.t.Errorf("%s does not print %q but:\n%s", script, c.want, out)
		}
		return
	}
	addr, stop := s.start(script, c.until)
	if c.meanwhile != "" {
		s.run(strings.ReplaceAll(c.meanwhile, "NAME:6632", addr))
	}
	stop()
}

// Every command of the documentation does what its section says, in the state that the section describes. docs/cli.md has
// the examples of the commands: TestPrintedCommandsExist.
func TestCommandsOfTheDocumentation(t *testing.T) {
	named := map[string]string{}
	for _, page := range pages(t) {
		if filepath.Base(page) == "cli.md" {
			continue
		}
		for _, c := range commandsOfPage(t, page) {
			if named[c.line] == "" && !onlyNames(c.line) {
				named[c.line] = c.script
			}
		}
	}
	all := slices.Concat(slices.Collect(maps.Keys(onServer)), onNewDatabase, []string{tlsHealth, "belfry dev"}) // dev_test.go runs dev
	slices.Sort(all)
	require.Equal(t, slices.Sorted(maps.Keys(named)), all, "each command of the documentation has an entry")

	cluster := pgtest.OwnCluster(t, "fsync", "full_page_writes")
	for _, name := range []string{"served", "new", "queen"} {
		require.NoError(t, cluster.CreateDatabase(t.Context(), name))
	}
	x := newShell(t, "BELFRY_CONFIG=", "BELFRY_LOG_FORMAT=json", "BELFRY_HTTP_DRAIN_DELAY=0s", "BELFRY_SPOOL_DIR="+t.TempDir(),
		"BELFRY_ENCRYPTION_KEY="+strings.Repeat("5", 64), "BELFRY_DATABASE_URL="+cluster.URL("new"))
	x.places = strings.NewReplacer("--from URL", "--from '"+cluster.URL("queen")+"'", " N", " 1")
	tables, err := os.ReadFile("../../pkg/engine/queenimport/testdata/queen.sql")
	require.NoError(t, err)
	execute := func(database, statements string) {
		conn, err := pgx.Connect(t.Context(), cluster.URL(database))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), statements)
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
	}
	execute("queen", string(tables)+`
		INSERT INTO queen.queues VALUES (gen_random_uuid(), 'orders', '', '', 0, 300, 3, 1000, 3600, false, false, 0, 0, 0, 0, false, false, 0, 0, now());
		INSERT INTO queen.partitions SELECT gen_random_uuid(), id, 'Default', now(), now() FROM queen.queues;
		INSERT INTO queen.messages SELECT gen_random_uuid(), 't', NULL, id, '1', now(), false, NULL FROM queen.partitions;`)
	for _, line := range onNewDatabase {
		x.do(named[line], newDatabase[line])
	}

	x.env = append(x.env, "BELFRY_DATABASE_URL="+cluster.URL("served"))
	addr, stop := x.start("belfry serve", serving)
	defer stop()
	execute("served", "CREATE TABLE orders (id int PRIMARY KEY, total int, paid bool)")
	server := "http://" + addr
	x.env = append(x.env, "BELFRY_HTTP_ADDR="+addr, "BELFRY_SERVER="+server)
	x.places = strings.NewReplacer("QUEUE", "shop", "PARTITION", "Default", "GROUP", "billing", "TRANSACTION-ID", "a", "TABLE", "orders",
		"--database-url URL", "--database-url '"+cluster.URL("served")+"'", shopURL, cluster.URL("served"), "URL", server)
	t.Setenv("BELFRY_SERVER", server)
	t.Setenv("BELFRY_CONTEXTS", filepath.Join(t.TempDir(), "contexts.yaml"))
	for _, line := range slices.Sorted(maps.Keys(onServer)) {
		for _, step := range []string{
			"queue delete shop --yes --if-exists", "queue configure shop --option encryptionEnabled=true", "push shop 1 --transaction-id a", "push shop 2 --transaction-id b",
		} {
			code, _, problems := belfry(t, strings.Fields(step)...)
			require.Zero(t, code, problems)
		}
		code, popped, problems := belfry(t, "pop", "shop", "--group", "billing", "-o", "jsonpath=$[0].partitionId")
		require.Zero(t, code, problems)
		code, _, problems = belfry(t, "ack", strings.Trim(strings.TrimSpace(popped), `"`), "a", "--group", "billing", "--status", "dlq", "--error", "no paper")
		require.Zero(t, code, problems)
		x.do(named[line], onServer[line])
	}
}
