package main

const (
	// moveRate is the rate of pushes and consumerRate the rate of the consumers, in messages per second.
	moveRate, consumerRate = 1000, 2000
	// movePartitions is the number of partitions of the queue that moves.
	movePartitions = 10
	// tick is the step of the simulation, and moveTicks its length, in milliseconds.
	tick, moveTicks = 1, 30_000
)

// moveRule is when consumers read from the new cell.
type moveRule string

const (
	// drainFirst: a group reads a partition at the new cell only after it has finished that partition at the old cell.
	drainFirst moveRule = "old cell first"
	// bothAtOnce: a group reads from both cells in turns.
	bothAtOnce moveRule = "both in turns"
)

// moved is the result of a move.
type moved struct {
	lost, disordered int
	// drained is when the old cell is empty, and longest the longest time of a message in the queue, in seconds.
	drained, longest float64
}

// message is a message of a partition.
type message struct{ seq, pushedAt int }

// log is the messages of each partition in one cell.
type log [movePartitions][]message

func (l *log) push(p int, m message) { l[p] = append(l[p], m) }

func (l *log) empty() bool {
	for _, messages := range l {
		if len(messages) > 0 {
			return false
		}
	}
	return true
}

// move simulates one group of a queue that moves at tick 0. All pushes since then go to the new cell. The old cell has a
// backlog.
func move(backlog int, rule moveRule) (m moved) {
	var older, newer log
	var next, seen [movePartitions]int
	pushed, delivered := 0, 0
	push := func(to *log, now int) {
		p := pushed % movePartitions
		next[p]++
		pushed++
		to.push(p, message{next[p], now})
	}
	for range backlog {
		push(&older, 0)
	}
	drainedAt := -1
	for now := 0; now < moveTicks; now += tick {
		for range moveRate * tick / 1000 {
			push(&newer, now)
		}
		for k := range consumerRate * tick / 1000 {
			from, p := choose(&older, &newer, rule, now+k, delivered)
			if from == nil {
				break
			}
			got := from[p][0]
			from[p] = from[p][1:]
			delivered++
			if got.seq < seen[p] {
				m.disordered++
			}
			seen[p] = max(seen[p], got.seq)
			m.longest = max(m.longest, float64(now-got.pushedAt)/1000)
		}
		if drainedAt < 0 && older.empty() {
			drainedAt = now
		}
	}
	for p := range movePartitions {
		m.lost -= len(older[p]) + len(newer[p])
	}
	m.lost += pushed - delivered
	m.drained = float64(drainedAt) / 1000
	return m
}

// choose returns the cell and the partition of the next message, or nil if none may be delivered. The cells take turns, and
// the partitions of a cell too.
func choose(older, newer *log, rule moveRule, turn, delivered int) (*log, int) {
	cells := []*log{older, newer}
	if turn%2 == 1 {
		cells = []*log{newer, older}
	}
	for _, cell := range cells {
		for i := range movePartitions {
			p := (delivered + i) % movePartitions
			if len(cell[p]) == 0 || (rule == drainFirst && cell == newer && len(older[p]) > 0) {
				continue
			}
			return cell, p
		}
	}
	return nil, 0
}
