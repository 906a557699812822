package integration_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// keyRing sets the encryption keys of a server. Each key is one hex digit, repeated 64 times.
func keyRing(pairs string) func(*config.Config) {
	return func(cfg *config.Config) {
		cfg.Encryption.Key = ""
		keys := regexp.MustCompile(`:(\w)`).ReplaceAllStringFunc(pairs, func(pair string) string {
			return ":" + strings.Repeat(pair[1:], 64)
		})
		cfg.Encryption.Keys = setting.Secret(keys)
	}
}

// The encryption key of a message is lost. The error of the pop must name the message. After an operator sends the request
// that the error names, the group must receive the next message of the partition.
func TestAnOperatorMakesAMessageWithALostKeyADeadLetter(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	before := startOn(t, dsn, keyRing("lost:a"))
	c := before.client(t)
	c.configure("q", map[string]any{"encryptionEnabled": true}).ok(http.StatusOK)
	c.popIDs("q", "consumerGroup=g")
	lost := c.pushIDs("q", "p", "no/key")
	require.NoError(t, before.stop(t))

	c = startOn(t, dsn, keyRing("new:b")).client(t)
	c.pushIDs("q", "p", "next")
	c.pushIDs("q", "p2", "other")
	require.Equal(t, []string{"other"}, c.popIDs("q", "consumerGroup=g"), "another partition must not be affected")
	c.scan(t, `WITH due AS (UPDATE belfry.cursor SET ready_at = now(), retry_at = now() WHERE retry_at > now() RETURNING 1)
		SELECT count(*) FROM due`, nil, new(int))
	refused := c.pop("q", "consumerGroup=g&wait=true&timeout=60000")
	require.Equal(t, http.StatusInternalServerError, refused.Status)
	for _, want := range []string{"message " + lost[0].MessageID, `"no/key"`, `queue "q"`, `partition "p"`, `no key "lost"`} {
		require.Contains(t, refused.failure, want)
	}
	path := regexp.MustCompile(`POST (/api/v1/messages/\S+/dlq)`).FindStringSubmatch(refused.failure)
	require.NotNil(t, path, refused.failure)
	ask[any](c, post(path[1], `{"consumerGroup":"g","error":"its key is lost"}`)).ok(http.StatusOK)
	require.Equal(t, []string{"next"}, c.popIDs("q", "consumerGroup=g"))
	dead := c.dlq("queue=q").Messages
	require.Len(t, dead, 1)
	require.Equal(t, "no/key", dead[0].TransactionID)
}
