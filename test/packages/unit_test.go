//go:build installed

package packages_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

const (
	unitFile = "../../deploy/systemd/belfry.service"
	// exposure is the largest score of systemd-analyze security, in tenths. 0 is no exposure, and 100 is the largest.
	exposure = "15"
	// lastFlushes is drainTimeout of pkg/app: the time for the last flushes after the requests.
	lastFlushes = 15 * time.Second
)

// unit returns the values of a key in the unit.
func unit(t *testing.T, key string) []string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	var values []string
	for _, line := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		values = append(values, line[1])
	}
	return values
}

func TestTheUnitIsHardened(t *testing.T) {
	t.Parallel()
	text := output(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+exposure, unitFile)
	require.Contains(t, text, "Overall exposure level")
}

func TestTheUnitWaitsForTheStop(t *testing.T) {
	t.Parallel()
	wait, err := time.ParseDuration(strings.Join(unit(t, "TimeoutStopSec"), "") + "s")
	require.NoError(t, err)
	settings := config.Default()
	require.Greater(t, wait, settings.HTTP.DrainDelay+settings.HTTP.ShutdownTimeout+lastFlushes)
	require.Equal(t, []string{"infinity"}, unit(t, "TimeoutStartSec"), "a migration may take long")
}

func TestTheUnitAllowsAllConnections(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"65536"}, unit(t, "LimitNOFILE"))
	require.Less(t, config.Default().HTTP.MaxConnections, 60000)
}

func TestTheSpoolIsInTheStateDirectory(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"belfry"}, unit(t, "StateDirectory"))
	require.True(t, strings.HasPrefix(config.Default().Spool.Dir, "/var/lib/belfry/"))
}
