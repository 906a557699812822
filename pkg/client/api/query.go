package api

import (
	"encoding/json"
	"time"
)

// Registered is the answer when the query of a stream was registered.
type Registered struct {
	Success    bool   `json:"success"`
	QueryID    ID     `json:"query_id"`
	Name       string `json:"name"`
	ConfigHash string `json:"config_hash"`
	Fresh      bool   `json:"fresh"` // The query was created.
	Reset      bool   `json:"reset"` // The hash had changed, and the state was deleted.
}

// HashChanged is the answer 409 to the registration of a query whose hash has changed. The server has changed nothing.
type HashChanged struct {
	Success bool   `json:"success"`
	QueryID ID     `json:"query_id"`
	Name    string `json:"name"`
	Error   string `json:"error"`
}

// StreamState is the state of a query in a partition.
type StreamState struct {
	Success bool         `json:"success"`
	Rows    []StateEntry `json:"rows"`
}

// StateEntry is a key of the state with its value.
type StateEntry struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// DeletedStream is the answer of DELETE /api/v1/streams/:id.
type DeletedStream struct {
	Deleted bool   `json:"deleted"`
	ID      string `json:"id"`
	Existed bool   `json:"existed"`
}
