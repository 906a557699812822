package top

import "cmp"

// orders are the sort orders of the table. The key s selects the next one.
var orders = []struct {
	name    string
	compare func(a, b *row) int
}{
	{"rate", func(a, b *row) int { return cmp.Compare(b.Pushed+b.Delivered, a.Pushed+a.Delivered) }},
	{"waiting", func(a, b *row) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{"lag", func(a, b *row) int {
		switch {
		case a.lateSince.IsZero() && b.lateSince.IsZero():
			return 0
		case a.lateSince.IsZero():
			return 1
		case b.lateSince.IsZero():
			return -1
		}
		return a.lateSince.Compare(b.lateSince)
	}},
	{"pending", func(a, b *row) int { return cmp.Compare(b.Pending, a.Pending) }},
	{"dead letters", func(a, b *row) int { return cmp.Compare(b.Dead, a.Dead) }},
	{"name", func(*row, *row) int { return 0 }},
}
