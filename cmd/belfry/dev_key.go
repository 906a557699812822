package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
)

// devKeyName is the file with the key of `belfry dev`, in the folder of its Postgres.
const devKeyName = "encryption.key"

// devKey returns the encryption key of a data folder. It creates the key if the folder has none. --fresh does not
// delete the key.
func devKey(dir string) (setting.Secret, error) {
	path := filepath.Join(dir, devKeyName)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		random := make([]byte, seal.KeyBytes)
		_, _ = rand.Read(random) // never fails
		content = []byte(hex.EncodeToString(random))
		err = os.WriteFile(path, append(content, '\n'), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("making an encryption key in %s: %w", path, err)
	}
	key := setting.Secret(strings.TrimSpace(string(content)))
	if err := (seal.Config{Key: key}).Validate(); err != nil || key == "" {
		return "", fmt.Errorf("the file %s does not hold %d hexadecimal digits: restore the file, or remove it and run"+
			" \"belfry dev --fresh\"", path, 2*seal.KeyBytes)
	}
	return key, nil
}
