package integration_test

import (
	"os"
	"testing"

	"github.com/belfry-mq/belfry/test/bench/rig"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) {
	if code, ok := rig.RunChild(nil); ok {
		os.Exit(code)
	}
	pgtest.Main(m)
}
