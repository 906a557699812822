package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Context is a server with a name.
type Context struct {
	Name   string `yaml:"name"`
	Server string `yaml:"server"`
	Token  string `yaml:"token,omitempty"`
	CAFile string `yaml:"caFile,omitempty"`
}

// File is the content of the contexts file. Only its owner may read the file, because it contains tokens.
type File struct {
	Current  string    `yaml:"current,omitempty"`
	Contexts []Context `yaml:"contexts"`
}

// filePath returns the path of the file: BELFRY_CONTEXTS, or belfry/contexts.yaml in the user's configuration folder.
func filePath() (string, error) {
	if path := os.Getenv("BELFRY_CONTEXTS"); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "belfry", "contexts.yaml"), nil
}

// Load reads the file. It returns an empty File if the file does not exist.
func Load() (File, error) {
	path, err := filePath()
	if err != nil {
		return File{}, nil //nolint:nilerr // without a home folder there are no contexts
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil
	}
	if err != nil {
		return File{}, err
	}
	var c File
	if err := yaml.Unmarshal(text, &c); err != nil {
		return File{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return c, nil
}

// Save writes the file atomically.
func (c *File) Save() error {
	path, err := filePath()
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

// Get returns the context with a name. For "" it returns the current context, or an empty Context if there is none.
func (c *File) Get(name string) (Context, error) {
	if name == "" {
		name = c.Current
	}
	if name == "" {
		return Context{}, nil
	}
	if i := c.Index(name); i >= 0 {
		return c.Contexts[i], nil
	}
	return Context{}, fmt.Errorf("there is no context %q: \"belfry context list\" shows the contexts", name)
}

// Index returns the index of a context, or -1.
func (c *File) Index(name string) int {
	return slices.IndexFunc(c.Contexts, func(one Context) bool { return one.Name == name })
}
