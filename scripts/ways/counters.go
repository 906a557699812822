package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
)

// block is a range of lines in a file. A coverage counter counts its executions.
type block struct {
	file        string // below the root of the repository
	first, last int
	columns     string // distinguishes blocks on the same lines
}

// sample has the executions in all intervals of one kind: intervals without a request, or with one of the requests.
type sample struct {
	// For each interval, blocks counts the executions of each block, and statements counts how often each SQL file
	// was sent.
	blocks     []map[block]int
	statements []map[string]int
}

func (s *sample) add(blocks map[block]int, statements map[string]int) {
	s.blocks, s.statements = append(s.blocks, blocks), append(s.statements, statements)
}

// clearCounters sets the counters of all blocks to 0.
func clearCounters() error {
	if err := coverage.ClearCounters(); err != nil {
		return fmt.Errorf("clearing the counters: %w", err)
	}
	return nil
}

// readCounters returns the blocks that ran since clearCounters. It writes temporary files below dir.
func readCounters(ctx context.Context, dir string) (_ map[block]int, err error) {
	dir, err = os.MkdirTemp(dir, "counters-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := coverage.WriteCountersDir(dir); err != nil { // comes first, because the interval ends here
		return nil, fmt.Errorf("writing the counters: %w", err)
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return nil, fmt.Errorf("writing the description of the counters: %w", err)
	}
	profile := filepath.Join(dir, "profile")
	if err := execute(ctx, nil, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile); err != nil {
		return nil, err
	}
	file, err := os.Open(profile)
	if err != nil {
		return nil, fmt.Errorf("reading the counters: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return parseProfile(file)
}

// parseProfile reads the text format of a coverage profile and returns the blocks that ran.
func parseProfile(r io.Reader) (map[block]int, error) {
	ran := map[block]int{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, position, found := strings.Cut(lines.Text(), ".go:")
		if !found {
			continue // the first line, which names the mode
		}
		b := block{file: strings.TrimPrefix(name, module) + ".go"}
		var from, to, statements, count int
		if _, err := fmt.Sscanf(position, "%d.%d,%d.%d %d %d", &b.first, &from, &b.last, &to, &statements, &count); err != nil {
			return nil, fmt.Errorf("reading %q of a coverage profile: %w", lines.Text(), err)
		}
		if b.columns = fmt.Sprint(from, to); count > 0 && statements > 0 {
			ran[b] += count
		}
	}
	return ran, lines.Err()
}

// takesPart returns the keys with more executions in the intervals of the requests than in the idle intervals.
// Background work may run at any time, so one interval of each kind may be an exception.
func takesPart[K comparable](requests, idle []map[K]int) []K {
	seen := map[K]bool{}
	for _, ran := range requests {
		for k := range ran {
			seen[k] = true
		}
	}
	return slices.Collect(func(yield func(K) bool) {
		for k := range seen {
			in, out := sortedCounts(requests, k), sortedCounts(idle, k)
			if in[1] > out[len(out)-2] && !yield(k) {
				return
			}
		}
	})
}

func sortedCounts[K comparable](intervals []map[K]int, k K) []int {
	counts := make([]int, len(intervals))
	for i, ran := range intervals {
		counts[i] = ran[k]
	}
	slices.Sort(counts)
	return counts
}
