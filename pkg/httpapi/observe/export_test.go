package observe

// Internals that the tests in package observe_test call.
const (
	GroupLimit    = groupLimit
	GroupLimitMax = groupLimitMax
)
