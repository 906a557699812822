package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// savedContext is a server with a name.
type savedContext struct {
	Name   string `yaml:"name"`
	Server string `yaml:"server"`
	Token  string `yaml:"token,omitempty"`
	CAFile string `yaml:"caFile,omitempty"`
}

// contexts is the content of the file of contexts. Only its owner may read it, because it has tokens.
type contexts struct {
	Current  string         `yaml:"current,omitempty"`
	Contexts []savedContext `yaml:"contexts"`
}

// contextsFile returns the path of the file: BELFRY_CONTEXTS, or belfry/contexts.yaml in the folder of the
// user for settings.
func contextsFile() (string, error) {
	if path := os.Getenv("BELFRY_CONTEXTS"); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "belfry", "contexts.yaml"), nil
}

// loadContexts reads the file. Without a file there are no contexts.
func loadContexts() (contexts, error) {
	path, err := contextsFile()
	if err != nil {
		return contexts{}, nil //nolint:nilerr // without a home there are no contexts
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return contexts{}, nil
	}
	if err != nil {
		return contexts{}, err
	}
	var c contexts
	if err := yaml.Unmarshal(text, &c); err != nil {
		return contexts{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return c, nil
}

// save writes the file, whole or not at all.
func (c *contexts) save() error {
	path, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".contexts-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// get returns a context by its name, or the current one for "". Without a current one it is empty.
func (c *contexts) get(name string) (savedContext, error) {
	if name == "" {
		name = c.Current
	}
	if name == "" {
		return savedContext{}, nil
	}
	if i := c.index(name); i >= 0 {
		return c.Contexts[i], nil
	}
	return savedContext{}, usageError(fmt.Sprintf("there is no context %q: belfry context list shows them", name))
}

func (c *contexts) index(name string) int {
	return slices.IndexFunc(c.Contexts, func(one savedContext) bool { return one.Name == name })
}
