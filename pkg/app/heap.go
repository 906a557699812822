package app

import "runtime"

// heapFloor is how much further than Go's own rule the heap may grow before a collection. Without it
// a server with a heap of a few megabytes collects many times a second under load, on cores that
// Postgres could use.
const heapFloor = 32 << 20

// holdHeap raises the target of the heap by heapFloor until release is called. The block is never
// written, so it costs address space and no memory. A memory limit (GOMEMLIMIT) still holds.
func holdHeap() (release func()) {
	block := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(block) }
}
