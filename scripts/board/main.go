// Command board writes the Grafana board of Belfry, deploy/grafana/belfry.json. Run it in the root of the repository:
//
//	go run ./scripts/board
//
// The panels are in panels.go and more.go. The command computes the ids and the positions of the panels. For each alert
// of a panel it adds a link to the runbook.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// boardPath is the written file, below the root of the repository.
const boardPath = "deploy/grafana/belfry.json"

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "board:", err)
		os.Exit(1)
	}
}

// write writes the board below root.
func write(root string) error {
	text, err := encode(board(rows()))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(boardPath)), text, 0o644); err != nil {
		return fmt.Errorf("writing the board: %w", err)
	}
	return nil
}

// encode returns the board as JSON that people can read.
func encode(b dashboard) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(b); err != nil {
		return nil, fmt.Errorf("encoding the board: %w", err)
	}
	return text.Bytes(), nil
}
