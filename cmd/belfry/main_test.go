package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// argsVariable makes the test program run as belfry, with the arguments in the variable. Tests of signals and exit
// codes need a separate process.
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

// startBelfry starts belfry in a new process. env has additional environment variables.
func startBelfry(t *testing.T, stdout, stderr io.Writer, args []string, env ...string) *exec.Cmd {
	t.Helper()
	encoded, err := json.Marshal(args)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), argsVariable+"="+string(encoded), "BELFRY_CONFIG="), env...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, 10*time.Second
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // the test has failed
			_ = cmd.Wait()
		}
	})
	return cmd
}
