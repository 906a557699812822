package problem

import "time"

// SetSnapshotAge changes how long a transaction may be open before it is a HeldSnapshot.
func (f *Finder) SetSnapshotAge(d time.Duration) { f.snapshotAge = d }
