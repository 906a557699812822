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

// commandVariable makes the test program run as belfry with the arguments of its command line.
const commandVariable = "BELFRY_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	if encoded := os.Getenv(argsVariable); encoded != "" {
		var args []string
		if err := json.Unmarshal([]byte(encoded), &args); err != nil {
			panic(err)
		}
		os.Exit(run(args, os.Stdout, os.Stderr))
	}
	pgtest.Main(m)
}
