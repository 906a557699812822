package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that is too old is refused before its first error, which would be one of syntax.
func TestOldVersionsAreRefused(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{
		"9.6.24": true, "12.20": true, "13.16 (Debian 13.16-1)": true, "14.0": false, "15.4 (Debian 15.4-1)": false, "18beta1": false, "14devel": false,
		"": false, "unknown": false,
	} {
		err := checkVersion(version)
		require.Equal(t, old, err != nil, version)
		if old {
			require.ErrorContains(t, err, version)
			require.ErrorContains(t, err, "Postgres 14 or later")
		}
	}
}

// Each place where default_transaction_read_only can be set has the command that undoes it there.
func TestWritableNamesThePlace(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"user": "ALTER ROLE r RESET", "database": "ALTER DATABASE d RESET", "database user": "ALTER ROLE r IN DATABASE d RESET",
		"client": "database.url", "configuration file": "ALTER SYSTEM RESET", "command line": "default_transaction_read_only",
	} {
		require.Contains(t, writable(source, "r", "d"), want, source)
	}
}
