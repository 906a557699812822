package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// byDefault sets the section retention of the configuration to half an hour.
func byDefault(c *Config) {
	c.CompletedRetention, c.DeadLetterRetention = 30*time.Minute, 30*time.Minute
}

// The section retention of the configuration applies to queues without retentionEnabled. It deletes what every group
// has passed and old dead letters, and nothing else.
func TestTheServerKeepsCompletedMessagesAndDeadLettersForALimitedTime(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(3), byDefault)
	r.push("p", 10)
	r.age("p", 8)
	r.sweep(r.retention())
	require.Len(t, r.stored("p"), 10, "no group reads the queue")
	require.Zero(t, r.number("SELECT count(*) FROM belfry.sweep"), "so no sweep is leased")

	r.consume("fast", 10)
	r.consume("slow", 4)
	d := r.pop("slow", 1)
	r.ack(d, queue.AckDead, d.Messages...)
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 6, 7, 8, 9, 10}, r.stored("p"), "slow has not passed 6 to 10, and 5 is a young dead letter")
	require.Equal(t, counts{completed: 4}, r.counts(), "nothing was unread")

	r.consume("slow", 5)
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 9, 10}, r.stored("p"))
	r.exec("UPDATE belfry.dead_letter SET failed_at = failed_at - interval '1 hour'")
	r.options("retention_enabled = true")
	r.sweep(r.retention())
	require.Equal(t, []int64{5, 9, 10}, r.stored("p"), "a queue with retentionEnabled has its own options, and 0 is for ever")
	r.options("retention_enabled = false")
	r.sweep(r.retention())
	require.Equal(t, []int64{9, 10}, r.stored("p"), "the dead letter is old, so its message goes too")
	require.Zero(t, r.number("SELECT count(*) FROM belfry.dead_letter"))

	r.cfg.CompletedRetention, r.cfg.DeadLetterRetention = 0, 0
	r.age("p", 10)
	r.sweep(r.retention())
	require.Equal(t, []int64{9, 10}, r.stored("p"), "0 is for ever")
}
