package operate_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// The parser of a request reads exactly the members of its type.
func TestParsersReadTheMembersOfTheTypes(t *testing.T) {
	t.Parallel()
	configure := func(body []byte) any {
		set, err := operate.ParseConfigure(body, queue.DefaultDefaults())
		return []any{set.Settings, err}
	}
	number, flag := new(int64(7777)), new(true)
	options := api.SetOptions{
		LeaseTime: number, RetryLimit: number, DelayedProcessing: number, WindowBuffer: number, EncryptionEnabled: flag, RetentionEnabled: flag,
		RetentionSeconds: number, CompletedRetentionSeconds: number, MaxWaitTimeSeconds: number, MaxSize: number, Priority: new(-7),
		RetryDelay: number, TTL: number, DeadLetterQueue: flag, DLQAfterMaxRetries: flag, RetryBackoff: number, RetryDelayMax: number,
		ExpireAfterSeconds: number, DeadLetterExpired: flag, MaxDeliveries: number, TenantDelimiter: new("/"),
	}
	apitest.RequireReads(t, configure, api.Configure{Queue: "q", Namespace: "n", Task: "t", Options: options})
	apitest.RequireReads(t, func(body []byte) any { return configure([]byte(`{"queue":"q","options":` + string(body) + `}`)) }, options)

	// called sends a body. It returns the answer and the calls that the fakes recorded.
	called := func(target string) func(body []byte) any {
		return func(body []byte) any {
			f := &apitest.Fakes{}
			answer := apitest.Call(f, http.MethodPost, target, string(body))
			return []any{answer.Body.String(), f.GroupCalls, f.DeadLetters.Filter, f.DeadLetters.Rate, f.DeadLetters.Texts}
		}
	}
	apitest.RequireReads(t, called("/api/v1/consumer-groups/g/queues/q/seek"),
		api.Seek{ToEnd: true}, api.Seek{ToBeginning: true}, api.Seek{Timestamp: time.Now()})
	apitest.RequireReads(t, called("/api/v1/dlq/redrive"), api.Redrive{Queue: "q", Group: "g", All: true}, api.Redrive{
		Queue: "q", Group: "g", Partition: "p", TransactionID: "t", Error: "no", From: time.Now(), To: time.Now(), Rate: 7, ToQueue: "parked", DryRun: true,
	}, api.Redrive{Queue: "q", Group: "g", All: true, AsOf: "x"})
	apitest.RequireReads(t, called("/api/v1/system/maintenance"), api.Switch{Enabled: true})
}
