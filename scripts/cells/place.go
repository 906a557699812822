package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// weights returns the part of the traffic of each queue, the largest first.
func weights(n int, skew float64) []float64 {
	all, sum := make([]float64, n), 0.0
	for i := range all {
		all[i] = math.Pow(float64(i+1), -skew)
		sum += all[i]
	}
	for i := range all {
		all[i] /= sum
	}
	return all
}

// placement chooses the cell of each queue.
type placement struct {
	name  string
	place func(weights []float64, cells int) []int
	// grow adds a cell to a placement. If it is nil, the queues are placed again.
	grow func(weights []float64, before []int, cells int) []int
}

var placements = []placement{{"modulo", modulo, nil}, {"rendezvous", rendezvous, nil}, {"directory", directory, growDirectory}}

// hash returns a number for a queue and a cell. It is the same in each run.
func hash(queue, cell int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "queue-%d/%d", queue, cell))
	return binary.BigEndian.Uint64(sum[:8])
}

// modulo takes the remainder of a hash of the name.
func modulo(weights []float64, cells int) []int {
	at := make([]int, len(weights))
	for q := range at {
		at[q] = int(hash(q, -1) % uint64(cells))
	}
	return at
}

// rendezvous takes the cell with the largest hash of the queue and the cell.
func rendezvous(weights []float64, cells int) []int {
	at := make([]int, len(weights))
	for q := range at {
		for c := range cells {
			if hash(q, c) > hash(q, at[q]) {
				at[q] = c
			}
		}
	}
	return at
}

// directory stores the cell of each queue in a table. It gives each queue, the largest first, to the cell with the least
// traffic.
func directory(weights []float64, cells int) []int {
	at, load := make([]int, len(weights)), make([]float64, cells)
	for q, w := range weights {
		at[q] = slices.Index(load, slices.Min(load))
		load[at[q]] += w
	}
	return at
}

// growDirectory moves queues to a new cell until the new cell has its share. It takes the largest queues that fit from the
// cell with the most traffic.
func growDirectory(weights []float64, before []int, cells int) []int {
	at := slices.Clone(before)
	load := loads(weights, at, cells+1)
	share := 1 / float64(cells+1)
	const enough = 0.01 // of the share
	for share-load[cells] > enough*share {
		fullest := slices.Index(load, slices.Max(load))
		most := min(share-load[cells], load[fullest]-share)
		q := slices.IndexFunc(weights, func(w float64) bool { return w <= most })
		for q >= 0 && q < len(at) && at[q] != fullest {
			q++
		}
		if q < 0 || q == len(at) || fullest == cells {
			break // no queue is small enough
		}
		at[q] = cells
		load[fullest] -= weights[q]
		load[cells] += weights[q]
	}
	return at
}

// loads returns the traffic of each cell.
func loads(weights []float64, at []int, cells int) []float64 {
	load := make([]float64, cells)
	for q, w := range weights {
		load[at[q]] += w
	}
	return load
}

// throughput returns the messages per second of the whole system when its busiest cell is full.
func throughput(weights []float64, at []int, cells int) float64 {
	return capacity / slices.Max(loads(weights, at, cells))
}

// moves returns how many queues change their cell, and their part of the traffic.
func moves(weights []float64, before, after []int) (n int, traffic float64) {
	for q := range weights {
		if before[q] != after[q] {
			n++
			traffic += weights[q]
		}
	}
	return n, traffic
}

const (
	// outage is how long a lost cell does not answer, in seconds. busy is the used part of the capacity.
	outage = 30
	busy   = 0.7
)

// loss is what the loss of a cell means.
type loss struct {
	// queues and traffic are the parts that stop.
	queues, traffic float64
	// waiting is how many messages wait at their producers when the cell answers again. catchUp is the time in seconds
	// until the cell has taken them and all messages that came later.
	waiting, catchUp float64
}

// lose computes the loss of the cell with the most traffic.
func lose(weights []float64, at []int, cells int) (l loss) {
	load := loads(weights, at, cells)
	lost := slices.Index(load, slices.Max(load))
	for _, c := range at {
		if c == lost {
			l.queues += 1 / float64(len(at))
		}
	}
	l.traffic = load[lost]
	rate := l.traffic * busy * capacity * float64(cells)
	l.waiting = rate * outage
	l.catchUp = l.waiting / (capacity - rate)
	return l
}
