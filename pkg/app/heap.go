package app

import "runtime"

// heapFloor is how large the heap may grow before it is collected, beyond what
// Go's own rule allows. A server that holds a few megabytes would else be
// collected many times a second under load, on cores that Postgres could use.
const heapFloor = 32 << 20

// holdHeap raises the heap's target by heapFloor until release is called. The
// block is never touched, so it costs address space and no memory, and a memory
// limit (GOMEMLIMIT) holds all the same.
func holdHeap() (release func()) {
	block := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(block) }
}
