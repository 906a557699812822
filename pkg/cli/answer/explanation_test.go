package answer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/answer"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

func TestAnExplanationHasTheHeadersOfTheMessage(t *testing.T) {
	t.Parallel()
	partition, id := "p", "m"
	e := api.Explanation{Code: "leased", Sentence: "The message is delivered.", Queue: "q", Partition: &partition, ConsumerGroup: "g", TransactionID: &id}
	require.NotContains(t, answer.Explanation(&e, time.Now()), "header")
	e.Headers = map[string]string{"tenant": "acme\x1b", "content-type": "text/plain"}
	require.Contains(t, answer.Explanation(&e, time.Now()), "message m: 0 before it\n         └─ header content-type: text/plain\n         └─ header tenant: acme")
	require.NotContains(t, answer.Explanation(&e, time.Now()), "\x1b")
}
