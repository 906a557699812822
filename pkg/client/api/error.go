package api

// Error is the body of an answer that is no success.
type Error struct {
	// What is wrong and what to change.
	Error string `json:"error"`
}

// Refused is Error for a route whose success has the member success, as in Queen MQ.
type Refused struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}
