package integration_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"independent":                         groupsIndependent,
		"from a timestamp":                    groupsFrom,
		"queue mode ignores subscriptionMode": groupsQueueMode,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), t.Name())
		})
	}
}

func groupsIndependent(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1", "2", "3")
	require.Equal(t, []string{"1", "2"}, c.popIDs(queue, "consumerGroup=a&autoAck=true&batch=2"))
	require.Equal(t, []string{"1"}, c.popIDs(queue, "consumerGroup=b&autoAck=true"))
	require.Equal(t, []string{"3"}, c.popIDs(queue, "consumerGroup=a&autoAck=true&batch=9"))
	require.Equal(t, []string{"2", "3"}, c.popIDs(queue, "consumerGroup=b&autoAck=true&batch=9"))
	require.Equal(t, []string{"1", "2", "3"}, c.popIDs(queue, "autoAck=true&batch=9"))
	c.pushIDs(queue, "p", "4")
	for _, group := range []string{"a", "b", "__QUEUE_MODE__"} {
		require.Equal(t, []string{"4"}, c.popIDs(queue, "autoAck=true&consumerGroup="+group), group)
	}
	require.Empty(t, c.popIDs(queue, "consumerGroup="), "an empty group name must mean no group")
}

func groupsFrom(t *testing.T, c client, queue string) {
	for _, id := range []string{"1", "2", "3", "4"} {
		c.pushIDs(queue, "p", id)
	}
	stored := c.pop(queue, "batch=9&consumerGroup=peek").ok(http.StatusOK).Messages
	second, err := time.Parse(time.RFC3339Nano, stored[1].CreatedAt)
	require.NoError(t, err)
	berlin := time.FixedZone("", 2*60*60)
	for group, from := range map[string]string{
		"as delivered": stored[1].CreatedAt,
		"offset":       second.In(berlin).Format(time.RFC3339Nano),
		"space":        second.Format("2006-01-02 15:04:05.999999Z07:00"),
		"no zone":      second.Format("2006-01-02T15:04:05.999999"),
		"an instant":   second.Add(time.Microsecond).Format(time.RFC3339Nano),
	} {
		query := "batch=9&consumerGroup=" + url.QueryEscape(group) + "&subscriptionMode=new&subscriptionFrom=" + url.QueryEscape(from)
		require.Equal(t, []string{"3", "4"}, c.popIDs(queue, query), "%s: the group must get only messages after %s", group, from)
	}
	require.Equal(t, []string{"1", "2", "3", "4"}, c.popIDs(queue, "batch=9&consumerGroup=past&subscriptionFrom=1999-12-31"))
	require.Empty(t, c.popIDs(queue, "batch=9&consumerGroup=future&subscriptionFrom=2999-12-31T00:00:00Z"))
}

func groupsQueueMode(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1")
	require.Equal(t, []string{"1"}, c.popIDs(queue, "subscriptionMode=new"), "the default group must always start at the beginning")
}

func TestDefaultSubscriptionMode(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *config.Config) { cfg.Defaults.SubscriptionMode = "new" }).client(t)
	c.pushIDs("q", "p", "1")
	require.Empty(t, c.popIDs("q", "consumerGroup=g"))
	require.Equal(t, []string{"1"}, c.popIDs("q", "consumerGroup=h&subscriptionMode=all"))
	require.Equal(t, []string{"1"}, c.popIDs("q", ""))
}
