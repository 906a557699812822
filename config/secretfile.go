package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// fileSuffix is the end of the name of a variable that has the path of a file with a secret.
const fileSuffix = "_FILE"

// maxSecretBytes limits the size of the file of a secret.
const maxSecretBytes = 64 << 10

// secretOf returns the value of the variable name, or the content of the file that the variable name_FILE names.
// used is the variable that is set. ok is false if neither is set. If the value cannot be used, ok is false and
// secretOf adds a problem.
func (l *loader) secretOf(name string) (text, used string, ok bool) {
	text, used = l.env[name], name+fileSuffix
	path := l.env[used]
	switch {
	case path == "":
		return text, name, text != ""
	case text != "":
		l.fail(fmt.Errorf("the environment variables %s and %s are both set: unset one of them", name, used))
		return "", "", false
	}
	if !filepath.IsAbs(path) { // the text may be the secret itself, so the error does not show it
		l.fail(fmt.Errorf("the environment variable %s must be the absolute path of a file", used))
		return "", "", false
	}
	text, err := readSecret(path)
	if err != nil {
		l.fail(fmt.Errorf("the environment variable %s names the file %q, which cannot be used: %w", used, path, err))
		return "", "", false
	}
	return text, used, true
}

// readSecret returns the content of a file without the line break at its end. Its errors do not
// contain the content.
func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxSecretBytes+1))
	if err != nil {
		return "", err
	}
	if len(content) > maxSecretBytes {
		return "", errors.New("it has more than 64 KiB")
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if text == "" {
		return "", errors.New("it is empty")
	}
	return text, nil
}
