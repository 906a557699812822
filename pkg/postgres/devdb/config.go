package devdb

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// Config describes the cluster.
type Config struct {
	// Dir is the folder of the cluster. It is created when missing. An existing folder
	// must be empty or contain a cluster of this package.
	Dir string
	// Port is the TCP port on 127.0.0.1; 0: Start picks a free port.
	Port int
	// Fresh deletes the data in Dir first.
	Fresh bool
	// Settings are settings of postgresql.conf for this run. They override the defaults of this package. They must not set the
	// address, the port or the data folder.
	Settings map[string]string
	// Env are additional environment variables of Postgres, as name=value.
	Env []string
	// Log gets the events of the cluster; nil: no log.
	Log *zap.Logger
}

// reserved lists the settings that only this package may set.
var reserved = []string{"data_directory", "external_pid_file", "listen_addresses", "port", "unix_socket_directories"}

// normalized returns c with its defaults and with the names of Settings in lower case. The error names every invalid value.
func (c Config) normalized() (Config, error) {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("the cluster has no folder: name one"))
	}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("the port %d is out of range: use 1 to 65535, or 0 for a free port", c.Port))
	}
	settings := map[string]string{}
	for name, value := range c.Settings {
		if slices.Contains(reserved, strings.ToLower(name)) {
			errs = append(errs, fmt.Errorf("the setting %s is reserved: the cluster sets it itself", name))
		}
		settings[strings.ToLower(name)] = value
	}
	c.Settings = settings
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c, errors.Join(errs...)
}

// arguments returns the command line of postgres. It overrides the configuration files in
// the folder, which a user may have changed.
func (c Config) arguments(data string, port int) []string {
	settings := map[string]string{
		"log_destination":   "stderr",
		"logging_collector": "off",
		"timezone":          "UTC",
		"log_timezone":      "UTC",
	}
	maps.Copy(settings, c.Settings)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = strconv.Itoa(port)
	settings["unix_socket_directories"] = ""
	args := []string{"-D", data}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c"+name+"="+settings[name])
	}
	return args
}

// DefaultDir returns the folder of the cluster of `belfry dev`: a folder in the home folder of the user. Postgres does not run as
// root. So for root, DefaultDir returns /var/lib/belfry/dev if the account of Postgres may not enter root's home folder. It fails
// if a user other than root has no home folder.
func DefaultDir() (string, error) {
	dir, err := userDir()
	if os.Geteuid() != 0 {
		return dir, err
	}
	if err == nil {
		as, err := accountFor(filepath.Join(dir, dataName))
		if err == nil && as.closedParent(dir) == "" {
			return dir, nil
		}
	}
	return "/var/lib/belfry/dev", nil
}

// userDir returns the folder of a user for the cluster.
func userDir() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for the cluster (name one with --data): %w", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "belfry", "dev"), nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "belfry", "dev"), nil
	}
	return filepath.Join(home, ".local", "share", "belfry", "dev"), nil
}

// downloadDir returns the folder of downloaded programs. It has one subfolder per version.
func downloadDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/belfry/postgres", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for Postgres: %w", err)
	}
	return filepath.Join(cache, "belfry", "postgres"), nil
}
