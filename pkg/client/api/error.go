package api

// Error is the body of an answer that is no success.
type Error struct {
	Error string `json:"error"` // What is wrong and what to change.
}

// Refused is Error for a route whose success has the member success, as in Queen MQ.
type Refused struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}
