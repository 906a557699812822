package queue_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestDefaultDefaultsAreValid(t *testing.T) {
	t.Parallel()
	d := queue.DefaultDefaults()
	require.NoError(t, d.Validate())
	require.Equal(t, 30*time.Second, d.PopTimeout)
	require.Equal(t, 1, d.PopBatchSize)
	require.Empty(t, d.SubscriptionMode)
}

func TestValidateNamesAllInvalidDefaults(t *testing.T) {
	t.Parallel()
	err := queue.Defaults{
		LeaseTime: time.Second - 1, RetryLimit: -1, PopTimeout: 0, PopBatchSize: 0, SubscriptionMode: "New",
	}.Validate()
	for _, want := range []string{
		"defaults.lease_time is 999.999999ms: it must be at least 1s",
		"defaults.retry_limit is -1: it must not be negative",
		"defaults.pop_timeout is 0s: it must be positive",
		"defaults.pop_batch_size is 0: it must be at least 1",
		`defaults.subscription_mode is "New": it must be empty, all or new`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestValidateNamesOnlyTheInvalidDefault(t *testing.T) {
	t.Parallel()
	for key, invalidate := range map[string]func(*queue.Defaults){
		"defaults.lease_time":        func(d *queue.Defaults) { d.LeaseTime = -time.Second },
		"defaults.retry_limit":       func(d *queue.Defaults) { d.RetryLimit = -3 },
		"defaults.pop_timeout":       func(d *queue.Defaults) { d.PopTimeout = -1 },
		"defaults.pop_batch_size":    func(d *queue.Defaults) { d.PopBatchSize = -1 },
		"defaults.retry_delay":       func(d *queue.Defaults) { d.RetryDelay = -1 },
		"defaults.retry_backoff":     func(d *queue.Defaults) { d.RetryBackoff = 0 },
		"defaults.retry_delay_max":   func(d *queue.Defaults) { d.RetryDelayMax = d.RetryDelay - 1 },
		"defaults.subscription_mode": func(d *queue.Defaults) { d.SubscriptionMode = "timestamp" },
	} {
		d := queue.DefaultDefaults()
		invalidate(&d)
		err := d.Validate()
		require.ErrorContains(t, err, key)
		require.NotContains(t, err.Error(), "\n", "only %s is invalid", key)
	}
}

func TestValidateAcceptsBoundaryValues(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "all", "new"} {
		d := queue.Defaults{LeaseTime: time.Second, RetryLimit: 0, RetryBackoff: 1, PopTimeout: 1, PopBatchSize: 1, SubscriptionMode: mode}
		require.NoError(t, d.Validate(), "mode %q", mode)
	}
}

func TestOptionsHaveTheNamesAndValuesOfTheAPI(t *testing.T) {
	t.Parallel()
	d := queue.DefaultDefaults()
	text, err := json.Marshal(d.Options())
	require.NoError(t, err)
	require.JSONEq(t, `{"leaseTime":300,"retryLimit":7,"delayedProcessing":0,"windowBuffer":0,
		"encryptionEnabled":false,"retentionEnabled":false,"retentionSeconds":0,"completedRetentionSeconds":0,
		"maxWaitTimeSeconds":0,"maxSize":0,"priority":0,"retryDelay":1000,"ttl":3600,
		"deadLetterQueue":false,"dlqAfterMaxRetries":false}`, string(text))

	d.LeaseTime, d.RetryLimit = 90*time.Second, 0
	require.Equal(t, int64(90), d.Options().LeaseTime)
	require.Zero(t, d.Options().RetryLimit)
}
