package api

import "time"

// Examination is the answer to GET /api/v1/doctor.
type Examination struct {
	At       time.Time `json:"at"`
	Version  string    `json:"version"`  // The version of this instance.
	Healthy  bool      `json:"healthy"`  // No check is `wrong`.
	Wrong    int64     `json:"wrong"`    // The number of checks with the result `wrong`.
	Warnings int64     `json:"warnings"` // The number of checks with the result `warning`.
	Unknown  int64     `json:"unknown"`  // The number of checks with the result `unknown`.
	Checks   []Finding `json:"checks"`
}

// Finding is the result of one check.
type Finding struct {
	Code string `json:"code"` // The name of the check. It stays the same in later versions.
	// `ok`, `warning`, `wrong` or `unknown`. `warning`: the checked part works now and needs attention. `wrong`: the checked
	// part does not work, or may lose data. `unknown`: the check was not possible, and `found` says why.
	Result  string   `json:"result"`
	Found   string   `json:"found"`   // What was found, with figures.
	Why     string   `json:"why"`     // Why the check matters.
	Do      []string `json:"do"`      // Steps and commands.
	Runbook string   `json:"runbook"` // The section of the runbook about this check.
}
