package progressplane

// Internals that the tests in package progressplane_test call.
const (
	GroupLimit    = groupLimit
	GroupLimitMax = groupLimitMax
)
