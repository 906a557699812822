package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// argsVariable makes the test program run as belfry. Tests of signals and exit codes need a
// separate process.
const argsVariable = "BELFRY_TEST_ARGS"

func TestMain(m *testing.M) {
	if encoded := os.Getenv(argsVariable); encoded != "" {
		var args []string
		if err := json.Unmarshal([]byte(encoded), &args); err != nil {
			panic(err)
		}
		os.Exit(run(args, os.Stdout, os.Stderr))
	}
	pgtest.Main(m)
}
