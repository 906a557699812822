package problem

import "time"

// SetSnapshotAge changes how long a transaction may be open.
func (f *Finder) SetSnapshotAge(d time.Duration) { f.snapshotAge = d }
