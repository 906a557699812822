// Command steppable builds the chaos test with a clock that a fault can step: steppable FILE. `make chaos` calls it.
// Without this program, each run of the chaos test with the fault step-clock builds such a program for its servers.
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
	defer func() { _ = os.RemoveAll(dir) }() // the program in os.Args[1] is outside of the folder
	return clock.Build(context.Background(), dir, os.Args[1])
}
