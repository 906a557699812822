package listen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, listen.DefaultConfig().Validate())
}

func TestValidateNamesEveryMistake(t *testing.T) {
	t.Parallel()
	err := listen.Config{CanaryTimeout: -time.Second}.Validate()
	for _, key := range []string{"canary_interval", "canary_timeout", "notify_interval", "stop_timeout", "peer_timeout"} {
		require.ErrorContains(t, err, "listen."+key+" is ")
	}
	cfg := listen.DefaultConfig()
	cfg.PeerTimeout = cfg.CanaryInterval
	require.ErrorContains(t, cfg.Validate(), "it must be above listen.canary_interval (10s)")
}
