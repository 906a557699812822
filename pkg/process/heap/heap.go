// Package heap is a binary heap. Each element stores its index, so the heap moves or removes an element without a search. A user
// of container/heap has to write a type with five methods. A user of this package writes two methods.
//
// The package is pure memory and imports no other package of Belfry. A Heap is not safe for concurrent use.
package heap

// Element is an element of a Heap.
type Element[E any] interface {
	// Before reports whether the element comes before other.
	Before(other E) bool
	// Place returns the variable in which the heap stores the index of the element plus 1. The variable is 0 while the element is
	// not in the heap.
	Place() *int
}

// Heap has its first element at the index 0. The zero value is empty.
type Heap[E Element[E]] []E

// Put adds e to the heap. If e is in the heap already, Put moves it to its new index. Call Put after each change of e that
// affects Before.
func (h *Heap[E]) Put(e E) {
	place := e.Place()
	if *place == 0 {
		*h = append(*h, e)
		*place = len(*h)
	}
	h.down(h.up(*place - 1))
}

// Remove removes e, if it is in the heap.
func (h *Heap[E]) Remove(e E) {
	place := e.Place()
	if *place == 0 {
		return
	}
	index, last := *place-1, len(*h)-1
	h.swap(index, last)
	*place = 0
	var none E
	(*h)[last] = none // lets the collector free the element
	*h = (*h)[:last]
	if index < last {
		h.down(h.up(index))
	}
}

// up moves an element towards the front, and returns its new index.
func (h Heap[E]) up(i int) int {
	for i > 0 && h[i].Before(h[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

// down moves an element towards the end.
func (h Heap[E]) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].Before(h[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		h.swap(i, first)
		i = first
	}
}

func (h Heap[E]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].Place(), *h[j].Place() = i+1, j+1
}
