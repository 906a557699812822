package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Write writes a history as JSON, one operation per line.
func Write(w io.Writer, operations []Operation) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	for i := range operations {
		if err := encoder.Encode(operations[i]); err != nil {
			return fmt.Errorf("writing operation %d: %w", operations[i].ID, err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing a history: %w", err)
	}
	return nil
}

// Read reads a history written by Write.
func Read(r io.Reader) ([]Operation, error) {
	decoder := json.NewDecoder(bufio.NewReader(r))
	var operations []Operation
	for {
		var o Operation
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return operations, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading operation %d of a history: %w", len(operations)+1, err)
		}
		operations = append(operations, o)
	}
}
