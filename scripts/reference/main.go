// Command reference generates files from the parts of the OpenAPI document in pkg/httpapi/openapi: openapi.json,
// which the server sends, docs/http-reference.md, and one page per subject in docs/http. A schema with x-go-type is
// taken from a Go type of pkg/client/api. Run `go generate ./pkg/httpapi/openapi` after each change of a part or of
// such a type. A test fails if a file is out of date.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/belfry-mq/belfry/pkg/httpapi/openapi"
	"github.com/belfry-mq/belfry/test/contract"
)

// derived returns the texts of the generated files. The keys are paths in the repository, whose folder is top.
func derived(top string) (map[string][]byte, error) {
	parts, err := contract.Assemble(openapi.Sources)
	if err != nil {
		return nil, fmt.Errorf("merging the parts: %w", err)
	}
	document, err := expand(parts, filepath.Join(top, filepath.FromSlash(typesFolder)))
	if err != nil {
		return nil, fmt.Errorf("reading the Go types: %w", err)
	}
	text, err := reference(document)
	if err != nil {
		return nil, fmt.Errorf("writing the reference: %w", err)
	}
	files := split(string(text))
	files["pkg/httpapi/openapi/openapi.json"] = document
	return files, nil
}

func run() error {
	found, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	top := strings.TrimSpace(string(found))
	files, err := derived(top)
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}
