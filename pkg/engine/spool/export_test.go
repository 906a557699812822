package spool

import "time"

// The tests do not wait long.
func init() { drainBackoff.Initial, drainBackoff.Max = time.Millisecond, 20*time.Millisecond }
