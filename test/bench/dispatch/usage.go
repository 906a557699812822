package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat: the kernel shows
// hundredths of a second to programs, whatever it counts in.
const clockTick = 10 * time.Millisecond

// cpu returns the processor time the child has used so far.
func (c *child) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of %s: %w", c.name, err)
	}
	// The name, in parentheses, may hold anything. Behind it come the fields from
	// the third on; the 14th and 15th are user and system time.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading the processor time of %s: unexpected text %q", c.name, text)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the processor time of %s: %w", c.name, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// memory returns the bytes the child has in memory.
func (c *child) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", c.name, err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("reading the memory of %s: unexpected text %q", c.name, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", c.name, err)
	}
	return pages * int64(os.Getpagesize()), nil
}
