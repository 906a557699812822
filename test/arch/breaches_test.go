package arch_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// breaches has examples that keep or break each rule. In an example, " :: " separates the name of a file from its text, and
// " ++ " separates files. " => " separates a part of a text that keeps the rule from its replacement.
var breaches = []struct {
	rule string
	// complain returns the complaints of the rule.
	complain func(given string) []string
	// rows maps an example to a part of the only complaint about it. The empty string means that the rule does not
	// complain.
	rows map[string]string
}{
	{"wings", importing(wingBreaches, module+"/"), map[string]string{
		"pkg/engine/store/push.go imports pkg/queue":                                     "",
		"pkg/engine/store/push.go imports pkg/engine/seal":                               "",
		"pkg/engine/store/push.go imports pkg/dispatch":                                  "imports only pkg/access",
		"pkg/engine/store/push.go imports pkg/engine/store":                              "not below",
		"pkg/engine/store/push.go imports test/pgtest":                                   "no test helpers",
		"pkg/engine/store/push.go imports scripts/load":                                  "no test helpers",
		"pkg/engine/store/push.go imports pkg/client":                                    "imports only",
		"pkg/engine/store/internal/claim/call.go imports pkg/engine/store/internal/push": "not below",
		"pkg/engine/store/internal/claim/call.go imports pkg/engine/store/internal/ack":  "not below",
		"pkg/engine/store/internal/push/call.go imports pkg/engine/store/internal/claim": "",
		"pkg/engine/store/internal/gate/gate.go imports pkg/queue":                       "is not in the table",
		"pkg/engine/sweep/trim.go imports pkg/engine/attach":                             "not below",
		"pkg/engine/doc.go imports pkg/queue":                                            "pkg/engine is not in the table",
		"pkg/engine/other.go imports pkg/queue":                                          "pkg/engine is not in the table",
		"pkg/engine/store/push_test.go imports test/pgtest":                              "",
		"pkg/httpapi/routes_test.go imports pkg/postgres":                                "",
		"pkg/queue/id.go imports sql":                                                    "packages outside of Belfry",
		"pkg/httpapi/routes.go imports pkg/httpapi/data":                                 "",
		"pkg/httpapi/data/push.go imports pkg/httpapi":                                   "not below",
		"pkg/client/client.go imports pkg/queue":                                         "imports only pkg/client/api",
		"pkg/client/api/queue.go imports pkg/queue":                                      "packages outside of Belfry",
		"pkg/httpapi/data/ack.go imports pkg/client/api":                                 "",
		"pkg/httpapi/data/ack.go imports pkg/client":                                     "imports only",
		"cmd/belfry/serve.go imports pkg/client":                                         "",
		"pkg/cli/push.go imports pkg/cli/output":                                         "",
		"pkg/cli/push.go imports pkg/queue":                                              "imports only pkg/client",
		"pkg/app/app.go imports pkg/cli":                                                 "imports only config",
		"test/integration/pop.go imports pkg/app":                                        "",
		"scripts/load/main.go imports pkg/client":                                        "",
		"pkg/gate/gate.go imports pkg/queue":                                             "pkg/gate is not in the table",
		"pkg/queue/id.go imports pkg/gate":                                               "not in the table",
	}},
	{"names", ofSources(nameBreaches), map[string]string{
		"pkg/queue/types.go :: package queue":            "", // the rule is for packages, not for files
		"pkg/util/a.go :: package util":                  `"util"`,
		"pkg/engine/store/common/a.go :: package common": `"common"`,
		"pkg/core/push/a.go :: package push":             `"core"`,
		"pkg/push/a_test.go :: package helpers_test":     `"helpers"`,
	}},
	{"libraries", importing(wallBreaches, ""), map[string]string{
		"config/load.go imports github.com/spf13/viper":                            "",
		"config/load.go imports github.com/spf13/pflag":                            "",
		"pkg/app/app.go imports github.com/spf13/viper":                            "but only config",
		"pkg/app/app_test.go imports github.com/spf13/viper":                       "but only config",
		"pkg/dashboard/page.go imports github.com/labstack/echo/v4":                "",
		"pkg/httpapi/wire/body.go imports github.com/labstack/echo/v4":             "",
		"pkg/app/app.go imports github.com/labstack/echo/v4/middleware":            "pkg/httpapi and pkg/dashboard",
		"pkg/app/app.go imports github.com/labstack/echo/v5":                       "pkg/httpapi and pkg/dashboard",
		"pkg/postgres/pool.go imports github.com/jackc/pgxlisten":                  "but only pkg/postgres/listen",
		"test/pgtest/pgtest.go imports github.com/golang-migrate/migrate/v4":       "but only pkg/postgres/migrate",
		"test/pgtest/pgtest.go imports github.com/fergusstrange/embedded-postgres": "but only pkg/postgres/devdb",
		"config/load.go imports github.com/spf13/cobra":                            "but only cmd/belfry and pkg/cli",
		"pkg/queue/id.go imports testing":                                          "only tests may import",
		"pkg/queue/id.go imports github.com/stretchr/testify/require":              "only tests may import",
		"pkg/queue/id_test.go imports github.com/stretchr/testify/require":         "",
		"test/pgtest/pgtest.go imports go.uber.org/goleak":                         "",
	}},
	{"tools", func(given string) []string { return toolBreaches(strings.Fields(given)) }, map[string]string{
		module + "/pkg/engine/store " + module + "/pkg/clients " + full(apiTypes) + " github.com/jackc/pgx/v5": "",
		module + "/pkg/cli/bench/load":            "pkg/cli/bench/load, which only tools need",
		module + "/pkg/client":                    "which only tools need",
		"github.com/DataDog/sketches-go/ddsketch": "which only tools need",
	}},
	{"examples", importing(exampleBreaches, ""), map[string]string{
		"examples/x/main.go imports " + module + "/pkg/client": "",
		"examples/x/main.go imports " + full(apiTypes):         "",
		"examples/x/main.go imports github.com/jackc/pgx/v5":   "",
		"examples/x/main.go imports " + module + "/pkg/queue":  "imports only the client",
		"examples/x/main.go imports " + module + "/config":     "imports only the client",
	}},
	{"calls", func(given string) []string {
		return slices.Concat(callBreaches(bodies(given)), dotBreaches(bodies(given)))
	}, map[string]string{
		"pkg/x/x.go :: time :: time.Sleep(time.Second)":                                   "pkg/x/x.go:5: time.Sleep",
		"pkg/x/x_test.go :: time :: time.Sleep(time.Second)":                              "time.Sleep",
		"cmd/belfry/x.go :: time :: time.Sleep(time.Second)":                              "time.Sleep",
		"test/chaos/x.go :: time :: time.Sleep(time.Second)":                              "time.Sleep",
		"pkg/x/x.go :: time :: wait := time.Sleep; wait(1)":                               "time.Sleep",
		"pkg/x/x.go :: time :: <-time.After(time.Second)":                                 "",
		"pkg/x/x.go :: example.com/time2 :: time.Sleep(1)":                                "",
		`pkg/x/x_test.go :: os :: t.Skip("no database")`:                                  "Skip hides",
		"pkg/x/x_test.go :: os :: t.SkipNow()":                                            "SkipNow hides",
		`test/pgtest/x.go :: os :: t.Skipf("no %s", "server")`:                            "Skipf hides",
		"pkg/x/x.go :: os :: decoder.Skip()":                                              "",
		"pkg/x/x.go :: fmt :: fmt.Println(1)":                                             "fmt.Println",
		`test/pgtest/x.go :: fmt :: fmt.Printf("")`:                                       "fmt.Printf",
		"pkg/x/x.go :: fmt :: fmt.Fprintln(w, 1)":                                         "",
		"cmd/belfry/x.go :: fmt :: fmt.Println(1)":                                        "",
		"test/chaos/x.go :: fmt :: fmt.Print(1)":                                          "",
		"pkg/x/x.go :: os :: println(1)":                                                  "builtin println",
		"pkg/x/x.go :: os :: os.Exit(1)":                                                  "os.Exit",
		`config/x.go :: log :: log.Fatalf("")`:                                            "log.Fatalf",
		"test/pgtest/x.go :: os :: os.Exit(1)":                                            "",
		"test/chaos/main.go :: package main\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }":  "",
		"test/chaos/load.go :: package load\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }":  "os.Exit",
		"pkg/x/x.go :: package x\n\nimport clock \"time\"\n\nfunc f() { clock.Sleep(1) }": "time.Sleep",
		"pkg/x/x.go :: package x\n\nimport . \"time\"\n\nfunc f() { Sleep(1) }":           "a dot import",
		"pkg/x/x_test.go :: package x\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f() {\n\tsynctest.Test(t, func() { time.Sleep(1) })\n\ttime.Sleep(2)\n}": "x_test.go:10",
	}},
	{"log lines", ofSources(logBreaches), map[string]string{
		logLine(`"a wake failed; a heal will repeat it"`): "",
		logLine(`"LISTEN succeeded"`):                     "",
		logLine(`"Postgres is running"`):                  "",
		logLine(`"http.max_connections is reached"`):      "",
		logLine(`text`):                                                "",
		logLine(`"A wake failed"`):                                     "a log line begins",
		logLine(`"a wake failed."`):                                    "a log line begins",
		logLine(`"a wake failed. " + "It will be repeated"`):           "a log line begins",
		logLine(`"Messages that could not be delivered were dropped"`): "a log line begins",
	}},
	{"functions", ofSources(functionBreaches), map[string]string{
		"pkg/x/x.go :: " + functionOf(maxFunctionLines):                           "",
		"pkg/x/x.go :: " + functionOf(maxFunctionLines+1):                         "the limit is 60",
		"pkg/x/x_test.go :: " + functionOf(maxFunctionLines+1):                    "",
		"pkg/x/x.go :: package x\n\nfunc (t) f(a, b, c, d, e int) {}\n":           "",
		"pkg/x/x.go :: package x\n\nfunc (t) f(a, b, c, d, e int, g string) {}\n": "6 parameters",
	}},
	{"packages", ofSources(roomBreaches), map[string]string{
		"pkg/x/x.go :: " + linesOf(maxRoomLines):                                   "",
		"pkg/x/x.go :: " + linesOf(maxRoomLines) + " ++ pkg/x/y.go :: package x\n": "the limit is 2500",
	}},
	{"files", ofSources(lengthBreaches), map[string]string{
		"pkg/x/x.go :: " + linesOf(maxLines):        "",
		"pkg/x/x.go :: " + linesOf(maxLines+1):      "the limit is 400",
		"pkg/x/x_test.go :: " + linesOf(maxLines+1): "the limit is 400",
	}},
	{"package docs", ofSources(docBreaches), map[string]string{
		"pkg/x/doc.go :: " + goodDoc + " ++ pkg/x/a.go :: package x\n":                                      "",
		"pkg/x/a.go :: package x\n":                                                                         "no package doc",
		"pkg/x/a.go :: package x\n ++ pkg/x/a_test.go :: " + goodDoc:                                        "no package doc",
		"test/x/a_test.go :: " + goodDoc + " ++ test/x/b_test.go :: package x":                              "",
		"pkg/x/a.go :: " + changed(goodDoc, "Package x => This package"):                                    "does not start",
		"pkg/x/a.go :: " + changed(goodDoc, "\npackage => \n\npackage"):                                     "no package doc",
		"cmd/x/a.go :: " + changed(changed(goodDoc, "Package x => Command x"), "package x => package main"): "",
	}},
	{"queries", func(given string) []string {
		name, text, _ := strings.Cut(given, " :: ")
		return queryBreaches(name, changed(text, "-- ... => -- Reads what the test needs.\n"))
	}, map[string]string{
		"room/a.sql :: -- ...SELECT a.id FROM a\n":                                            "",
		"room/a.sql :: -- ...SELECT a.id FROM a; -- the end\n":                                "",
		"room/a.sql :: -- ...SELECT count(*), count( * ) FROM a":                              "",
		"room/a.sql :: -- ...SELECT a.n * 2, (a.n) * a.m, 3*4 FROM a":                         "",
		"room/a.sql :: -- ...SELECT ';', a.id FROM a -- not; this *\n WHERE a.b = 'select *'": "",
		"room/a.sql :: -- ...SELECT 'it''s; so' FROM a /* nor; this */":                       "",
		"room/a.sql :: SELECT a.id FROM a":                                                    "open with a comment",
		"room/a.sql :: -- Reads.\nSELECT a.id FROM a":                                         "open with a comment",
		"room/a.sql :: \n-- ...SELECT a.id FROM a":                                            "open with a comment",
		"room/a.sql :: -- ...":                                                                "no statement",
		"room/a.sql :: -- ...SELECT 1; SELECT 2":                                              "more than one statement",
		"room/a.sql :: -- ...SELECT 1;;":                                                      "more than one statement",
		"room/a.sql :: -- ...SELECT * FROM a":                                                 `"SELECT *"`,
		"room/a.sql :: -- ...select\n  * FROM a":                                              `"select *"`,
		"room/a.sql :: -- ...SELECT DISTINCT * FROM a":                                        `"DISTINCT *"`,
		"room/a.sql :: -- ...SELECT a.id, b.* FROM a, b":                                      `".*"`,
		"room/a.sql :: -- ...SELECT 1, * FROM a":                                              `", *"`,
		"room/a.sql :: -- ...DELETE FROM a RETURNING *":                                       `"RETURNING *"`,
		"room/a.sql :: -- ...DELETE FROM a RETURNING a.*":                                     `".*"`,
		"room/A-b.sql :: -- ...SELECT 1":                                                      "package/some_name.sql",
		"room/a.txt :: -- ...SELECT 1":                                                        "package/some_name.sql",
	}},
	{"migrations", func(given string) []string { return migrationBreaches(strings.Fields(given)) }, map[string]string{
		"000001_init.up.sql 000001_init.down.sql 000002_more_of_it.down.sql 000002_more_of_it.up.sql": "",
		"000001_init.up.sql":                                                  "no down file",
		"000001_init.down.sql":                                                "no up file",
		"000002_init.up.sql 000002_init.down.sql":                             "000002 was found instead of 000001",
		"000000_init.up.sql 000000_init.down.sql":                             "000000 was found instead of 000001",
		"000001_a.up.sql 000001_a.down.sql 000003_b.up.sql 000003_b.down.sql": "000003 was found instead of 000002",
		"000001_init.up.sql 000001_start.down.sql":                            "called init going up and start going down",
		"000001_a.up.sql 000001_b.up.sql 000001_b.down.sql":                   "two up files",
		"000001_a.up.sql 000001_a.down.sql 1_b.up.sql":                        "call it NNNNNN",
		"000001_a.up.sql 000001_a.down.sql README.md":                         "call it NNNNNN",
	}},
	{"patches", func(given string) []string { return patchBreaches("a.sql", given) }, map[string]string{
		"SELECT pg_temp.rewrite('belfry.pop()', 'a', 'b')":                              "patches a function",
		"SELECT pg_get_functiondef('belfry.pop()'::regprocedure)":                       "patches a function",
		"SELECT regexp_replace(p.prosrc, 'a', 'b') FROM pg_proc p":                      "patches a function",
		"SELECT replace(prosrc, 'a', 'b') FROM pg_proc":                                 "patches a function",
		"SELECT substring(f.prosrc FROM 'a'), replace(f.name, 'a', 'b') FROM pg_proc f": "",
	}},
	{"SQL sources", func(given string) []string { return sourceBreaches(texts(given)) }, map[string]string{
		"functions/x/a.sql :: " + goodSource + "\nCREATE FUNCTION belfry.a(n int)":      "",
		"schema/t.sql :: -- Returns what the test needs.\nCREATE TABLE belfry.t (\n":    "",
		"schema/roles.sql :: -- Returns what the test needs.\nDO $$":                    "",
		"functions/x/a.sql :: CREATE FUNCTION belfry.a()":                               "open with a comment",
		"functions/x/a.sql :: -- Returns what the test needs.\n":                        "no function of its name",
		"functions/x/a.sql :: " + goodSource + "CREATE FUNCTION belfry.b()":             "makes belfry.b",
		"functions/x/a.sql :: " + goodSource + " ++ functions/y/a.sql :: " + goodSource: "is made by functions/x/a.sql and by",
		"schema/t.sql :: -- Returns what the test needs.\nCREATE TABLE belfry.u (":      "makes belfry.u",
		"functions/x/a.sql :: " + goodSource + strings.Repeat("\n", maxSourceLines):     "lines, at most",
	}},
	{"advisory locks", lockRule, map[string]string{
		" :: ":                       "",
		"page :: | `16` | b |\n => ": "does not list the lock 16",
		"page :: | lock |\n => | `(1, 3)` | c |\n":                                  "lists the lock (1, 3)",
		"c.go ::  => pg_advisory_lock(7)":                                           "c.go takes an advisory lock",
		"a.sql :: SELECT => SELECT pg_advisory_lock(1, 2), pg_advisory_lock(1, 4),": "does not list the lock (1, 4)",
		"a.sql :: pg_try_advisory_xact_lock_shared(1, 2) => 1":                      "a.sql takes no advisory lock",
	}},
	{"settings of docker-compose.yml", func(given string) []string {
		return composeBreaches(yamlOf(changed(goodCompose, given)), yamlOf(goodConfig))
	}, map[string]string{
		" => ": "",
		"services => # BELFRY_NO_KEY in a comment\nservices":             "",
		"PGHOST: a => BELFRY_HTTP_ADDR: \":2\"":                          "",
		"PGHOST: a => BELFRY_HTTP_ADR: \":2\"":                           "BELFRY_HTTP_ADR",
		"PGHOST: a => OTHER: ${BELFRY_PASSWORD}":                         "BELFRY_PASSWORD",
		"BELFRY_DATABASE_URL: x\n      PGHOST: a => - BELFRY_DATABASE=x": "BELFRY_DATABASE,",
		"30s => 15s":                       "kills belfry after 15s",
		"30s => soon":                      "stop_grace_period",
		"stop_grace_period => stop_signal": "is not set",
	}},
	{"exposures by docker-compose.yml", func(given string) []string { return exposureBreaches(yamlOf(changed(goodExposure, given))) }, map[string]string{
		" => ":                            "",
		"postgres:17.10 => postgres:17":   "no exact version",
		"postgres:17.10 => postgres":      "no exact version",
		"127.0.0.1:1:1 => 1:1":            "other addresses",
		"127.0.0.1:1:1 => 0.0.0.0:1:1":    "other addresses",
		"PASSWORD:?set it => PASSWORD:-x": "default password",
		"PASSWORD:?set it => PASSWORD":    "default password",
	}},
	{"alerts", func(given string) []string {
		return alertBreaches(yamlOf(changed(goodAlert, given)), map[string]bool{"belfry_a_total": true, "belfry_b_bucket": true})
	}, map[string]string{
		" => ":                                         "",
		"belfry_a_total{ => belfry_a{":                 "exports no belfry_a;",
		"belfry_a_total{ => belfry_a_totals{":          "exports no belfry_a_totals;",
		"belfry_b_bucket => belfry_b":                  "exports no belfry_b;",
		"belfry_b_bucket => belfry_b_max":              "exports no belfry_b_max;",
		goodExpression + " => up == 0":                 "no metric of Belfry",
		"severity: warning => team: a":                 "no severity",
		`summary: "s",  => `:                           "no summary",
		runbookURL + "good => " + runbookURL + "other": "runbook_url is",
		`description: "d" => description: ""`:          "no description",
	}},
	{"the runbook", func(given string) []string {
		given, more, _ := strings.Cut(given, " ++ ")
		return runbookBreaches(changed(goodRunbook, given), append([]string{"Alert", "code_one"}, strings.Fields(more)...))
	}, map[string]string{
		" => ":                       "",
		" =>  ++ more":               "more has no section",
		"(#code_one) => (#code_two)": "which is no section",
		"**Look.** a\n => a\n":       `no part "**Look.**"`,
		"\n### Alert => \n### Other" + runbookSection + "\n### Alert": "Other is neither the name of an alert",
		"\n### Alert => \n### Alert" + runbookSection + "\n### Alert": "two sections",
	}},
}

const (
	goodDoc = "// Package x keeps the partitions of a queue separate.\n// It promises order inside one partition and none between two.\npackage x\n"

	goodSource = "-- Returns what the test needs.\nCREATE FUNCTION belfry.a() RETURNS int\n"

	goodConfig   = "database:\n  url: \"\"\nhttp:\n  addr: \":1\"\n  drain_delay: 5s\n  shutdown_timeout: 10s\n"
	goodCompose  = "services:\n  belfry:\n    stop_grace_period: 30s\n    environment:\n      BELFRY_DATABASE_URL: x\n      PGHOST: a\n"
	goodExposure = "services:\n  a:\n    image: postgres:17.10\n    ports:\n      - 127.0.0.1:1:1\n    environment:\n      URL: u:${PASSWORD:?set it}@b\n"

	goodExpression = `rate(belfry_a_total{code="belfry_in_a_string"}[5m]) > 0 and histogram_quantile(0.9, belfry_b_bucket) > 1`
	goodAlert      = "groups:\n  - name: one\n    rules:\n      - alert: Good\n        expr: " + goodExpression + "\n        labels: {severity: warning}\n" +
		`        annotations: {summary: "s", runbook_url: "` + runbookURL + `good", description: "d"}` + "\n"

	runbookSection = "\n\n**You see.** a\n\n**It means.** a\n\n**Look.** a\n\n**Mend.** a\n"
	goodRunbook    = "# Runbook\n\n### Alert" + runbookSection + "\n### code_one" + runbookSection + "\n[b](#code_one)\n"
)

func TestEachRuleFindsItsBreaches(t *testing.T) {
	t.Parallel()
	for _, b := range breaches {
		for given, want := range b.rows {
			complaints := b.complain(given)
			if want == "" {
				require.Empty(t, complaints, "%s: %.200s", b.rule, given)
				continue
			}
			require.Len(t, complaints, 1, "%s: %.200s", b.rule, given)
			require.Contains(t, complaints[0], want, "%s: %.200s", b.rule, given)
		}
	}
}

// changed replaces a part of a text once. The change is "part => new part".
func changed(text, change string) string {
	before, after, _ := strings.Cut(change, " => ")
	return strings.Replace(text, before, after, 1)
}

// texts returns files by their names.
func texts(given string) map[string]string {
	files := map[string]string{}
	for _, file := range strings.Split(given, " ++ ") {
		name, text, _ := strings.Cut(file, " :: ")
		files[name] = text
	}
	return files
}

// samples parses files. It panics if a file is not Go.
func samples(given string) []source {
	var files []source
	for name, text := range texts(given) {
		file, err := parse(name, text)
		if err != nil {
			panic(err)
		}
		files = append(files, file)
	}
	return files
}

func ofSources(rule func([]source) []string) func(string) []string {
	return func(given string) []string { return rule(samples(given)) }
}

// importing gives a rule a file that imports a package. An example has the form "file imports package".
func importing(rule func([]source) []string, prefix string) func(string) []string {
	return func(given string) []string {
		file, imported, _ := strings.Cut(given, " imports ")
		return rule(samples(fmt.Sprintf("%s :: package %s\n\nimport _ %q\n", file, path.Base(path.Dir(file)), prefix+imported)))
	}
}

// bodies returns a file with one function. An example has the form "file :: import :: statements".
func bodies(given string) []source {
	if name, rest, _ := strings.Cut(given, " :: "); !strings.HasPrefix(rest, "package ") {
		imported, body, _ := strings.Cut(rest, " :: ")
		given = fmt.Sprintf("%s :: package x\n\nimport %q\n\nfunc f() { %s }\n", name, imported, body)
	}
	return samples(given)
}

func linesOf(n int) string { return "package x\n" + strings.Repeat("\n", n-1) }

func functionOf(lines int) string {
	return "package x\n\nfunc f() {\n" + strings.Repeat("\n", lines-2) + "}\n"
}

func yamlOf(text string) *yaml.Node {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		panic(err)
	}
	return document.Content[0]
}

// lockRule changes one file of a small repository that takes locks. An example has the form "file :: part => new part".
func lockRule(given string) []string {
	files := map[string]string{
		"a.sql": "SELECT pg_try_advisory_xact_lock_shared(1, 2)", "b.go": "const (\n\tlockKey int64 = 0x10\n\tx = `pg_advisory_lock($1)`\n)",
		"page": "| lock |\n| `(1, 2)` | a |\n| `16` | b |\n",
	}
	name, change, _ := strings.Cut(given, " :: ")
	files[name] = changed(files[name], change)
	page := files["page"]
	delete(files, "page")
	return lockBreaches(files, map[string][]string{"a.sql": {"(1, 2)"}, "b.go": {"16"}}, []string{"a.sql", "b.go"}, page)
}
