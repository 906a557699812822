package model_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// modest are the defaults of a run without flags, which takes a few seconds. Flags of the command line override them.
var modest = map[string]string{"rapid.checks": "60", "rapid.steps": "50"}

func TestMain(m *testing.M) {
	for name, value := range modest {
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintf(os.Stderr, "setting %s: %v\n", name, err)
			os.Exit(1)
		}
	}
	pgtest.Main(m)
}
