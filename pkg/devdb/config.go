package devdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// Config says which cluster to run and how.
type Config struct {
	// Dir is the home of the cluster. It is created when missing; when it exists
	// it must be empty or hold a cluster of ours.
	Dir string
	// Port is the TCP port on 127.0.0.1; 0 picks a free one.
	Port int
	// Fresh removes the data kept in Dir first.
	Fresh bool
	// Settings are further settings of postgresql.conf for this run. They win
	// over ours, except the address, the port and the data folder, which are
	// refused here.
	Settings map[string]string
	// BinDir is the folder with postgres, initdb and pg_ctl; empty means
	// FindBinaries.
	BinDir string
	// Log is told what happens to the cluster; nil means nobody.
	Log *zap.Logger
}

// reserved are the settings that the rest of this package relies on.
var reserved = []string{"data_directory", "external_pid_file", "listen_addresses", "port", "unix_socket_directories"}

func (c Config) validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("the cluster has no folder: name one"))
	}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("the port %d does not exist: give 1 to 65535, or 0 for a free one", c.Port))
	}
	for name := range c.Settings {
		if slices.Contains(reserved, strings.ToLower(name)) {
			errs = append(errs, fmt.Errorf("the setting %s is not free: the cluster sets it itself", name))
		}
	}
	return errors.Join(errs...)
}

// arguments are the command line of postgres. The command line wins over the
// files of the cluster, so what is set here holds whatever a user changed.
func (c Config) arguments(data string, port int) []string {
	settings := map[string]string{
		"log_destination":   "stderr",
		"logging_collector": "off",
		"timezone":          "UTC",
		"log_timezone":      "UTC",
	}
	for name, value := range c.Settings {
		settings[strings.ToLower(name)] = value
	}
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = fmt.Sprint(port)
	settings["unix_socket_directories"] = ""
	args := []string{"-D", data}
	for name, value := range settings {
		args = append(args, "-c"+name+"="+value)
	}
	slices.Sort(args[2:])
	return args
}

// durable tells whether the data must survive a power cut.
func (c Config) durable() bool {
	for name, value := range c.Settings {
		if strings.EqualFold(name, "fsync") {
			return value != "off"
		}
	}
	return true
}

// DefaultDir is where the cluster of `belfry dev` lives: a place of the user's
// own, or, for root, one that the account Postgres runs as can reach. It fails
// when the user has no home folder.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/belfry/dev", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for the cluster (name one with --data-dir): %w", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "belfry", "dev"), nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "belfry", "dev"), nil
	}
	return filepath.Join(home, ".local", "share", "belfry", "dev"), nil
}

// downloadDir is where fetched programs are kept, one folder per version.
func downloadDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/belfry/postgres", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for Postgres: %w", err)
	}
	return filepath.Join(cache, "belfry", "postgres"), nil
}
