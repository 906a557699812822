package stats

// Hasty returns Groups whose preview of a seek has no time.
func (g *Groups) Hasty() *Groups {
	return &Groups{pool: g.pool, lateAfter: g.lateAfter, seekBudget: -1}
}
