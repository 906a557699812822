//go:build !release

package main

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// documentedRun has the test data of one command of the documentation. Tests compare the output after they replace
// each sequence of spaces by one space.
type documentedRun struct {
	want string // a part of the output
	// before is shell code that runs first, because the section assumes its effect. more is appended to the command.
	before, more string
	// until is set for a command that runs until it is stopped. It is the output that shows that the command works.
	// Before the test stops the command, it runs the command meanwhile.
	until, meanwhile string
}

const (
	makeToken = "export BELFRY_AUTH_SECRET=ssssssssssssssssssssssssssssssss; belfry token create --subject a --role admin > token.txt; "
	shopURL   = "postgres://user:secret@db:5432/app"
	// refused is appended to commands with ids or versions that do not exist. It requires exit code 1. short is
	// appended to measurements.
	refused        = "|| [ $? = 1 ]"
	short          = "--warmup 0s --duration 0.1s --server $BELFRY_SERVER"
	ordersFile     = "echo '{\"customer\": \"c\", \"id\": \"o\"}' > orders.ndjson; "
	aSchedule      = "belfry schedule set NAME --queue q --every 1h; "
	orders         = "belfry queue create orders; "
	billingBreaker = "belfry group limit billing orders --breaker-failures 5; "
	shopBreaker    = "belfry group limit billing shop --breaker-failures 5; "
	serving        = `"msg":"ready"`
	tlsHealth      = "belfry health --server https://NAME:6632 --ca-file ca.crt"
)

// onServer has the commands that run against a database with a server. The queue shop is encrypted and has two
// messages. One of the two messages is a dead letter of the group billing.
var onServer = map[string]documentedRun{
	"belfry attach TABLE --queue Q":                                                                         {want: "orders"},
	"belfry attach orders --queue orders --key id":                                                          {want: "orders"},
	"belfry attach public.orders --queue orders --key id":                                                   {want: "orders"},
	"belfry attach orders --queue paid --on update --when \"new.paid AND NOT old.paid\" --payload id,total": {want: "paid"},
	"belfry bench":                          {want: "verified", more: "push " + short},
	"belfry attachments":                    {want: "TABLE"},
	"belfry bench end-to-end --duration 8s": {want: "verified", more: short},
	"belfry bench end-to-end --connections 4 --partitions 10 --batch 1 --rate 30": {want: "verified", more: short},
	"belfry bench push --connections 100 --batch 1":                               {want: "verified", more: short},
	"belfry bench push --connections 16 --batch 1 --duration 3s":                  {want: "verified", more: short},
	"belfry bench push --connections 8 --batch 100 --duration 3s":                 {want: "verified", more: short},
	"belfry bench pop --connections 8 --batch 100 --backlog 40000":                {want: "verified", more: short},
	"belfry bench push --headers 3":                                               {want: "verified", more: short},
	"belfry bench push":                                                           {want: "verified", more: short},
	"belfry cheat":                                                                {want: "belfry push orders"},
	"belfry config":                                                               {want: "BELFRY_ENCRYPTION_KEY"},
	"belfry demo":                                                                 {until: "A small shop runs"},
	"belfry dev --fresh":                                                          {until: "Ctrl-C stops"},
	"belfry detach orders":                                                        {want: "orders"},
	"belfry dlq jobs":                                                             {want: "JOB"},
	"belfry pauses":                                                               {want: "QUEUE"},
	"belfry dlq list --queue QUEUE":                                               {want: "billing"},
	"belfry dlq purge QUEUE --all":                                                {want: "shop no 1 1 0", more: "--yes"},
	"belfry dlq redrive QUEUE --all":                                              {want: "shop billing no 1 1 0 0", more: "--yes"},
	"belfry dlq show QUEUE TRANSACTION-ID":                                        {want: "no paper"},
	"belfry doctor":                                                               {want: "OK database_connection"},
	"belfry doctor --database-url URL":                                            {want: "OK database_connection"},
	"belfry doctor --server URL":                                                  {want: "OK database_connection"},
	"belfry explain --queue QUEUE --partition PARTITION --group GROUP":            {want: "partition Default"},
	"belfry group delete GROUP":                                                   {want: "GROUP QUEUE PARTITIONS billing", more: "--yes"},
	"belfry group seek GROUP QUEUE --to-end":                                      {want: "billing shop - 1", more: "--yes"},
	"belfry health":                                                               {},
	"belfry health --live":                                                        {},
	"belfry health --context production":                                          {before: "belfry context add production --server $BELFRY_SERVER --token t; "},
	"belfry health --server URL":                                                  {},
	"belfry lag":                                                                  {want: "billing shop Default 1"},
	"belfry maintenance discard":                                                  {want: "0", more: "--yes"},
	"belfry maintenance rejected":                                                 {want: "REASON"},
	"belfry maintenance retry":                                                    {want: "0"},
	"belfry maintenance show":                                                     {want: "PUSH-MAINTENANCE"},
	"belfry metrics --match belfry_schedule":                                      {want: "belfry_schedule_errors 0"},
	"belfry queue get QUEUE":                                                      {want: "shop"},
	"belfry queue resume QUEUE":                                                   {want: "shop"},
	"belfry group limit billing orders":                                           {before: orders, want: "billing"},
	"belfry group limit billing orders --concurrency 5 --rate 100/1s --burst 20":               {before: orders, want: "rateLimit={burst=20 messages=100 per=1s}"},
	"belfry group limit billing orders --breaker-failures 5 --breaker-pause 30s":               {before: orders, want: "breaker={failures=5 pause=30s pauseMax=10m}"},
	"belfry group limit billing orders --on-exhausted block":                                   {before: orders, want: "onExhausted=block"},
	"belfry group limit billing orders --remove":                                               {before: orders, want: "CHANGED"},
	"belfry apply -f limits.yaml":                                                              {want: "orders", more: "; belfry queue limit orders --remove; belfry group limit billing orders --remove"},
	"belfry export":                                                                            {want: "queues:"},
	"belfry group breaker GROUP QUEUE":                                                         {before: shopBreaker, want: "closed"},
	"belfry group breaker GROUP QUEUE --close":                                                 {before: shopBreaker, want: "billing no no"},
	"belfry group limit GROUP QUEUE --remove":                                                  {before: "belfry queue create QUEUE; ", want: "CHANGED"},
	"belfry queue limit orders":                                                                {before: orders, want: "LIMITS"},
	"belfry queue limit orders --concurrency 20":                                               {before: orders, more: "; belfry queue limit orders --remove", want: "concurrency=20"},
	"belfry schedule delete NAME":                                                              {before: aSchedule, more: "--yes", want: "NAME"},
	"belfry schedule pause NAME":                                                               {before: aSchedule, want: "NAME"},
	"belfry metrics --match belfry_batch":                                                      {want: "belfry_batch"},
	"belfry metrics --match dispatch_refused":                                                  {want: "dispatch_refused"},
	"belfry metrics --match inbox":                                                             {want: "belfry_inbox"},
	"belfry metrics --match intentions_skipped":                                                {want: "intentions_skipped"},
	"belfry metrics --match pool":                                                              {want: "belfry_pool"},
	"belfry metrics --match preflight_duration":                                                {want: "preflight_duration"},
	"belfry messages list --queue QUEUE --partition PARTITION --transaction-id TRANSACTION_ID": {want: "shop Default a"},
	"belfry queue configure QUEUE --option retentionEnabled=true --option completedRetentionSeconds=604800": {want: "604800"},
	"belfry reseal QUEUE":         {want: "Queue shop: 2 messages"},
	"belfry reseal QUEUE --check": {want: "Queue shop: 2 messages checked."},
	"belfry roles":                {want: "TO belfry_producer"},
	"belfry schedule set daily --queue reports --cron '0 8 * * 1-5' --zone Europe/Rome --payload '{}'":           {want: "every weekday at 08:00, Europe/Rome"},
	"belfry schedule set heartbeat --queue checks --every 10s --missed skip":                                     {want: "every 10 seconds"},
	"belfry schedule set launch --queue mails --at 2030-06-01T09:00:00Z --payload '{\"to\": \"all\"}' --dry-run": {want: "on 1 June 2030 at 09:00, UTC"},
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

// ofExamples has the other commands of docs/cli.md, of "belfry cheat", and of the texts that programs print. The
// queue orders has one message in the partition customer-7. The message is a dead letter of the group billing.
var ofExamples = map[string]documentedRun{
	"belfry ack 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --group billing --lease-id 0198f9a1-02b7-7c3e-9d10-4b8e5f6a7c8d": {more: refused},
	"belfry apply":                                {before: "belfry export > queues.yaml; ", more: "-f queues.yaml"},
	"belfry apply -f queues.yaml --dry-run":       {before: "belfry export > queues.yaml; "},
	"belfry apply --dry-run":                      {before: "belfry export > queues.yaml; ", more: "-f queues.yaml"},
	"belfry attach --list":                        {before: "belfry attach orders --queue orders; ", want: "TABLE"},
	"belfry attach orders --queue orders --print": {want: "CREATE TRIGGER"},
	"belfry bench end-to-end --rate 5000 --duration 1m --json result.json": {want: "verified", more: short},
	"belfry bench plan": {want: "Postgres cores"},
	"belfry bench plan --batch 100 --payload 256 --groups 0 --utilization 100":             {want: "100 % busy"},
	"belfry bench plan --rate 200 --batch 1 --retention 24h -o json":                       {want: `"postgresCores": 1`},
	"belfry bench plan --rate 5000 --payload 512 --groups 3":                               {want: "Postgres cores"},
	"belfry bench push --connections 32 --batch 100":                                       {want: "verified", more: short},
	"belfry config --check --config belfry.yaml":                                           {before: "belfry config --reference > belfry.yaml; "},
	"belfry config --reference > belfry.yaml":                                              {},
	"belfry context add production --server https://belfry.example.com --token \"$TOKEN\"": {before: "TOKEN=t; "},
	"belfry context list":                                      {},
	"belfry context use production":                            {},
	"belfry detach public.orders --queue orders":               {before: "belfry attach orders --queue orders; ", want: "orders"},
	"belfry dlq export --queue orders --format csv > dead.csv": {more: "; cat dead.csv", want: "failedAt,queue,partition"},
	"belfry dlq resend 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --payload order.json --group billing": {
		before: "echo '{}' > order.json; ", more: "--yes --if-exists",
	},
	"belfry messages resend 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --payload order.json": {before: "echo '{}' > order.json; ", more: "--if-exists"},
	"belfry messages move 5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11 order-1 --to 15m":               {more: "--if-exists"},
	"belfry dlq export --queue orders > dead.ndjson":                                           {},
	"belfry dlq list --queue orders":                                                           {want: "billing"},
	"belfry group breaker billing orders":                                                      {want: "closed"},
	"belfry group breaker billing orders --open 5m --reason 'the bank is down'":                {before: billingBreaker, want: "billing yes yes", more: "; belfry group breaker billing orders --close; belfry group limit billing orders --remove"},
	"belfry group breaker billing orders --close":                                              {before: billingBreaker, want: "billing no no", more: "; belfry group limit billing orders --remove"},
	"belfry dlq purge orders --all --dry-run":                                                  {want: "orders yes 1 0 1"},
	"belfry dlq purge orders --group billing --all":                                            {more: "--yes --dry-run", want: "orders yes 1 0 1"},
	"belfry dlq purge orders --all --save removed.ndjson":                                      {more: "--yes --dry-run", want: "orders yes 1 0 1"},
	"belfry dlq redrive orders --all --dry-run":                                                {want: "orders billing yes 1 0 0 1"},
	"belfry dlq redrive orders --all --to-queue orders.parked":                                 {before: "belfry queue create orders.parked; ", more: "--yes --dry-run", want: "orders billing yes 1"},
	"belfry dlq redrive orders --group billing --all":                                          {more: "--yes --dry-run", want: "orders billing yes 1 0 0 1"},
	"belfry dlq redrive orders --group billing --from 2h":                                      {more: "--yes", want: "orders billing no 1 1 0 0"},
	"belfry doctor --database-url postgres://user@db/app --strict -o json":                     {want: "database_connection"},
	"belfry explain --queue orders --group billing":                                            {want: "partition Default"},
	"belfry explain --queue orders --partition customer-7 --group billing":                     {want: "partition customer-7"},
	"belfry explain --queue orders --transaction-id order-1 --watch":                           {until: "customer-7"},
	"belfry export > queues.yaml":                                                              {},
	"belfry extend 0198f9a1-02b7-7c3e-9d10-4b8e5f6a7c8d --by 5m":                               {more: refused},
	"belfry group list":                                                 {want: "billing"},
	"belfry group blocked billing orders":                               {want: "PARTITION"},
	"belfry group unblock billing orders customer-7 --action retry":     {more: refused},
	"belfry group seek billing orders --partition customer-7 --to-end":  {more: "--yes", want: "billing orders customer-7"},
	"belfry group seek billing orders --to 15m":                         {more: "--yes", want: "billing orders"},
	"belfry help COMMAND":                                               {want: "belfry"},
	"belfry lag --min-seconds 60":                                       {want: "GROUP"},
	"belfry metrics --match queue":                                      {want: "queue"},
	"belfry pop":                                                        {more: "nosuch || [ $? = 4 ]"},
	"belfry pop orders --auto-ack":                                      {want: "customer-7"},
	"belfry pop orders --group billing --batch 10 --wait 30s -o ndjson": {before: "belfry push orders 2; ", want: "leaseId"},
	"belfry push orders '{\"id\": 1}'":                                  {want: "queued"},
	"belfry push orders --file orders.ndjson":                           {before: ordersFile, want: "1"},
	"belfry push orders --file orders.ndjson --partition-key '$.customer' --transaction-key '$.id'":               {before: ordersFile, want: "1"},
	"belfry push orders --partition customer-7 < orders.ndjson":                                                   {before: ordersFile, want: "1"},
	"belfry queue configure orders --option leaseTime=60 --option retryLimit=5":                                   {want: "60"},
	"belfry queue configure orders --option retryLimit=5":                                                         {want: "5"},
	"belfry queue configure orders --options '{\"retentionEnabled\": true, \"completedRetentionSeconds\": 3600}'": {want: "3600"},
	"belfry queue list":                                                                                   {want: "orders"},
	"belfry queue pause orders":                                                                           {more: "&& belfry queue resume orders", want: "orders"},
	"belfry queue purge orders --dry-run":                                                                 {want: "orders"},
	"belfry replay orders --group billing --to '15m ago'":                                                 {more: "--yes", want: "billing orders"},
	"belfry replay orders --group billing --to 15m":                                                       {more: "--yes", want: "billing orders"},
	"belfry reseal orders":                                                                                {want: "Queue orders"},
	"belfry reseal orders --check":                                                                        {want: "Queue orders"},
	"belfry serve --config /etc/belfry/belfry.yaml":                                                       {before: "belfry config --reference > belfry.yaml; ", until: serving},
	"belfry serve --database-url postgres://belfry@localhost:5432/belfry":                                 {until: serving},
	"belfry status":                                                                                       {want: "QUEUES"},
	"belfry tail -f orders --group debug-$USER":                                                           {until: "waiting"},
	"belfry tail -f orders --group debug-anna":                                                            {until: "waiting"},
	"belfry token create --subject billing --role read-write --ttl 720h":                                  {before: makeToken, want: "eyJ"},
	"belfry token create --subject keda --role read-only --read orders --ttl 8760h":                       {before: makeToken, want: "eyJ"},
	"belfry token create --subject me --role read-only --ttl 8h":                                          {before: makeToken, want: "eyJ"},
	"belfry token create --subject ops --role admin --ttl 1h --signing-key key.pem":                       {before: "openssl genpkey -algorithm ed25519 -out key.pem; ", want: "eyJ"},
	"belfry token create --subject shop --role read-write --push 'orders.*' --consume 'orders.*:billing'": {before: makeToken, want: "eyJ"},
	"belfry token inspect":                                                                                {before: makeToken, more: "< token.txt", want: "accepted"},
	"belfry token revoke 0198c7c2-5b1e-7c52-9b5b-0c8f7f4f6a10":                                            {want: "revoked: 0198c7c2"},
	"belfry top": {more: "|| [ $? = 2 ]", want: "needs a terminal"},
	"echo '{\"operations\": [{\"type\": \"push\", \"queue\": \"invoices\", \"payload\": {\"id\": 1}}]}' | belfry tx": {want: "invoices"},
}

// onNewDatabase has the commands for a database without a server, in the order of execution. The first commands find
// no schema. The source database of the import has a queue with one message.
var onNewDatabase = []struct {
	line string
	documentedRun
}{
	{"belfry migrate status", documentedRun{want: "pending 000001"}},
	{"belfry migrate plan", documentedRun{want: "000001"}},
	{"belfry migrate plan --sql", documentedRun{want: "CREATE TABLE"}},
	{"belfry migrate up", documentedRun{}},
	{"belfry import queen --from URL --dry-run", documentedRun{want: "orders 1 1 0 0 0 0"}},
	{"belfry import queen --from URL", documentedRun{want: "orders 1 1 0 0 0 1"}},
	{"belfry import queen --from postgres://queen@db/queen --dry-run", documentedRun{want: "orders 1 1 0 0 0 0"}},
	{"belfry import queen --from postgres://queen@db/queen --source-key-file queen.key", documentedRun{before: "printf '%064d' 5 > queen.key; ", want: "orders 1 1 0 0 0 0"}},
	{"belfry migrate down N", documentedRun{more: "--yes"}},
	{"belfry migrate down", documentedRun{before: "belfry migrate up; ", more: "--yes"}},
	{"belfry migrate down 2 --yes", documentedRun{before: "belfry migrate up; ", more: refused, want: "only 1 are applied"}},
	{"belfry migrate force N", documentedRun{}},
	{"belfry migrate force 2", documentedRun{more: refused}},
}

// elsewhere has commands that this test does not run: other tests run them, they take minutes, they need a fixed
// port, or a program inserts the names at run time.
var elsewhere = []string{
	"belfry audit undo 0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f --dry-run", "belfry dlq start-job orders --group billing --all --rate 50",
	tlsHealth, "belfry health --server https://belfry.example.com:6632 --ca-file ca.crt",
	"belfry dev", "belfry dev --data ./pgdata --http-addr 127.0.0.1:7000", "belfry dev --fresh --http-addr :7000", // dev_test.go
	"belfry bench all --repeat 3 --baseline --database-url postgres://belfry@localhost/belfry",
	"belfry ack 1 1", "belfry queue delete 1", "belfry queue resume 1", "belfry schedule delete 1", "belfry explain --queue 1 --group 1 --partition NAME", "belfry migrate force 1",
	"belfry queue configure 1 --option retentionEnabled=true --option completedRetentionSeconds=604800",
	"belfry pop 1 --group 1", "belfry pop 1 --group billing", "belfry tail QUEUE",
}

// makeShop deletes the queue shop of onServer and creates it with its messages.
func makeShop(t *testing.T) {
	t.Helper()
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
}

// pagesRunAsAWhole returns the pages whose commands depend on each other. TestRecipes and TestPages run these.
func pagesRunAsAWhole(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../docs/coming-from/*.md")
	require.NoError(t, err)
	return append(found, recipesPage, "../../docs/tutorial.md")
}

// This test runs every command that the documentation or a program prints, in the state that its section describes.
// It compares the output with the output that the section describes.
func TestCommandsOfTheDocumentation(t *testing.T) {
	named := map[string]string{}
	for _, c := range allPrinted(t) {
		if named[c.line] == "" && !onlyNames(c.line) {
			named[c.line] = cmp.Or(c.script, c.line)
		}
	}
	all := slices.Concat(slices.Collect(maps.Keys(onServer)), slices.Collect(maps.Keys(ofExamples)), elsewhere)
	for _, c := range onNewDatabase {
		all = append(all, c.line)
	}
	for _, page := range pagesRunAsAWhole(t) {
		for _, c := range commandsOfPage(t, page) {
			if !slices.Contains(all, c.line) && !onlyNames(c.line) {
				all = append(all, c.line)
			}
		}
	}
	slices.Sort(all)
	require.Equal(t, all, slices.Sorted(maps.Keys(named)), "each command of the documentation has an entry in onServer, ofExamples, onNewDatabase or elsewhere")

	cluster := pgtest.OwnCluster(t, "fsync", "full_page_writes")
	for _, name := range []string{"served", "new", "queen"} {
		require.NoError(t, cluster.CreateDatabase(t.Context(), name))
	}
	x := newShell(t, "BELFRY_CONFIG=", "BELFRY_LOG_FORMAT=json", "BELFRY_HTTP_DRAIN_DELAY=0s", "BELFRY_SPOOL_DIR="+t.TempDir(),
		"BELFRY_ENCRYPTION_KEY="+strings.Repeat("5", 64), "BELFRY_DATABASE_URL="+cluster.URL("new"))
	x.places = strings.NewReplacer("--from URL", "--from '"+cluster.URL("queen")+"'", "--from postgres://queen@db/queen", "--from '"+cluster.URL("queen")+"'", " N", " 1")
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
	for _, c := range onNewDatabase {
		x.do(named[c.line], c.documentedRun)
	}

	x.env = append(x.env, "BELFRY_DATABASE_URL="+cluster.URL("served"))
	addr, stop := x.start("belfry serve", serving)
	defer stop()
	execute("served", "CREATE TABLE orders (id int PRIMARY KEY, total int, paid bool)")
	server := "http://" + addr
	x.env = append(x.env, "BELFRY_HTTP_ADDR="+addr, "BELFRY_SERVER="+server,
		"BELFRY_PROBLEMS_LATE_AFTER=1h") // doctor --strict fails if a group is late, and this test takes minutes
	x.places = strings.NewReplacer("QUEUE", "shop", "PARTITION", "Default", "GROUP", "billing", "TRANSACTION-ID", "a", "TRANSACTION_ID", "a", "TABLE", "orders",
		"--database-url URL", "--database-url '"+cluster.URL("served")+"'", shopURL, cluster.URL("served"), "postgres://user@db/app", "'"+cluster.URL("served")+"'", "postgres://belfry@localhost:5432/belfry", "'"+cluster.URL("served")+"'",
		"URL", server, "/etc/belfry/", "", "COMMAND", "pop")
	t.Setenv("BELFRY_SERVER", server)
	t.Setenv("BELFRY_CONTEXTS", filepath.Join(t.TempDir(), "contexts.yaml"))
	for _, line := range slices.Sorted(maps.Keys(onServer)) {
		if strings.Contains(line, "QUEUE") || strings.Contains(line, "GROUP") || line == "belfry lag" {
			makeShop(t)
		}
		x.do(named[line], onServer[line])
	}
	x.run(`belfry push orders '{"id": 1}' --partition customer-7 --transaction-id order-1`)
	x.run("belfry ack $(belfry pop orders --group billing -o jsonpath='$[0].partitionId' | tr -d '\"') order-1 --group billing --status dlq")
	for _, line := range slices.Sorted(maps.Keys(ofExamples)) {
		x.do(named[line], ofExamples[line])
	}
}
