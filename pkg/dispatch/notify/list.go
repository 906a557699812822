package notify

// list holds tickets. The lock guards it.
type list[K comparable] struct {
	entry *entry[K] // nil: the list of all tickets
	refs  []ref[K]
	// ordered: refs is a binary heap, the earliest deadline first.
	ordered bool
}

// ref is a ticket in a list. Its index and the index of the membership point at each other, so a
// ticket leaves a list of 10,000 tickets without a search.
type ref[K comparable] struct {
	ticket *Ticket[K]
	index  int // in ticket.memberships
}

// add adds a membership of t.
func (l *list[K]) add(t *Ticket[K]) {
	t.memberships = append(t.memberships, membership[K]{list: l, index: len(l.refs)})
	l.refs = append(l.refs, ref[K]{ticket: t, index: len(t.memberships) - 1})
	l.up(len(l.refs) - 1)
}

// remove moves the last ticket to the index that becomes free.
func (l *list[K]) remove(index int) {
	last := len(l.refs) - 1
	l.swap(index, last)
	l.refs[last] = ref[K]{} // lets the collector free the ticket
	l.refs = l.refs[:last]
	if index < last {
		l.fix(index)
	}
}

// fix moves the ticket at the index to its place in the heap.
func (l *list[K]) fix(index int) {
	l.up(index)
	l.down(index)
}

func (l *list[K]) swap(i, j int) {
	l.refs[i], l.refs[j] = l.refs[j], l.refs[i]
	for _, at := range [2]int{i, j} {
		l.refs[at].ticket.memberships[l.refs[at].index].index = at
	}
}

// up moves the ticket at the index towards the front, to its place in the heap.
func (l *list[K]) up(i int) {
	for l.ordered && i > 0 {
		parent := (i - 1) / 2
		if !l.refs[i].ticket.before(l.refs[parent].ticket) {
			return
		}
		l.swap(i, parent)
		i = parent
	}
}

// down moves the ticket at the index towards the end, to its place in the heap.
func (l *list[K]) down(i int) {
	for l.ordered {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l.refs); child++ {
			if l.refs[child].ticket.before(l.refs[first].ticket) {
				first = child
			}
		}
		if first == i {
			return
		}
		l.swap(i, first)
		i = first
	}
}

// before reports whether t wakes before u.
func (t *Ticket[K]) before(u *Ticket[K]) bool {
	if t.idle != u.idle {
		return t.idle
	}
	if t.deadline.Equal(u.deadline) {
		return t.number < u.number
	}
	return t.deadline.Before(u.deadline)
}
