package integration_test

import (
	"os"
	"testing"

	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childURL); dsn != "" {
		os.Exit(serveChild(dsn, os.Getenv(childListenURL)))
	}
	pgtest.Main(m)
}
