package api

// Error is the body of an error answer.
type Error struct {
	Error string `json:"error"` // What is wrong and what to change.
}

// Refused is the body of an error answer of a route whose other answers have the member success, as in Queen MQ.
type Refused struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}
