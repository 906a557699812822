package spool

import "time"

// The tests use short pauses.
func init() { drainBackoff.Initial, drainBackoff.Max = time.Millisecond, 20*time.Millisecond }
