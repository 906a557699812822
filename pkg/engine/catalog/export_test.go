package catalog

// LimitUndo sets the largest number of cursors of a seek that can be undone.
func (c *Catalog) LimitUndo(limit int64) { c.maxUndoable = limit }
