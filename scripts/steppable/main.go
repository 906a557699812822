// Command steppable builds the chaos test with a clock that can be stepped: steppable FILE. Without it, each run of the
// chaos test with the fault step-clock builds such a program for its servers. It is called by make chaos.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/belfry-mq/belfry/test/chaos/clock"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build() error {
	if len(os.Args) != 2 {
		return errors.New("usage: steppable FILE")
	}
	dir, err := os.MkdirTemp("", "belfry-clock-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // only the program is needed
	return clock.Build(context.Background(), dir, os.Args[1])
}
