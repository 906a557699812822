package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// If nothing is left for the group, the answer names the schedule that stores the next message of the partition.
func TestTheNextMessageOfAScheduleIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO belfry.schedule (name, queue, partition, every_seconds, payload, handled_to, due_at, delay, overlap_group, paused, scheduled_by)
		SELECT v.name, v.queue, v.partition, 60, '{}', now(), now() + v.due, v.delay::interval, v.overlap_group, false, current_user::regrole
		  FROM (VALUES ('soon', 'q', 'p', interval '2 hours', '1 minute', NULL), ('later', 'q', 'p', interval '3 hours', '0', NULL),
		               ('elsewhere', 'other', 'p', interval '1 hour', '0', NULL), ('aside', 'q', 'Default', interval '1 hour', '0', 'g'),
		               ('paused', 'q', 'p', NULL, '0', NULL)) AS v(name, queue, partition, due, delay, overlap_group)`)
	f.exec(`INSERT INTO belfry.schedule (name, queue, partition, every_seconds, payload, handled_to, scheduled_by) VALUES ('new', 'q', 'p', 60, '{}', now(), current_user::regrole)`)
	requireNext := func(a explain.Answer, code explain.Code) {
		t.Helper()
		require.Equal(t, code, a.Code, a.Sentence)
		require.Equal(t, "soon", a.Schedule)
		require.Contains(t, a.Sentence, `The next message of the schedule "soon" comes at `+a.NextChangeAt.Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")+".")
		require.InDelta(t, 7200, a.NextChangeAt.Sub(a.At).Seconds(), 30)
	}
	requireNext(f.why("", explain.Instance{}), explain.NoQueue)
	require.Empty(t, f.why("m1", explain.Instance{}).Schedule, "the question is about one message")
	f.push("m1")
	f.pop(1)
	require.Empty(t, f.why("", explain.Instance{}).Schedule, "a message is delivered")
	f.ack(queue.AckCompleted)
	requireNext(f.why("", explain.Instance{}), explain.Empty)
	require.Empty(t, f.why("m1", explain.Instance{}).Schedule, "the question is about one message")
	aside, err := f.Explain(t.Context(), explain.Question{Queue: "q", Group: "g"}, explain.Instance{})
	require.NoError(t, err)
	require.Equal(t, []any{explain.NoPartition, "aside", true}, []any{aside.Code, aside.Schedule, aside.NextChangeAt.IsZero()}, "the overlap group may skip the instant")

	f.exec(`UPDATE belfry.schedule SET due_at = now() - interval '1 minute' WHERE name = 'later'`)
	late := f.why("", explain.Instance{})
	require.Equal(t, "later", late.Schedule)
	require.Contains(t, late.Sentence, `The schedule "later" has been due since `)
	require.True(t, late.NextChangeAt.IsZero())
}

// The next schedule is found among 100,000 others, of the same queue or of other queues.
func TestTheNextScheduleIsFoundAmongMany(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"q", "other"} {
		f := newFixture(t)
		f.exec(`INSERT INTO belfry.schedule (name, queue, partition, every_seconds, payload, handled_to, due_at, scheduled_by)
			SELECT 'z' || (200000 - n), $1, 'p', 60, '{}', now(), now() + n * interval '1 min', current_user::regrole FROM generate_series(1, 100000) n`, other)
		f.exec(`INSERT INTO belfry.schedule (name, queue, partition, every_seconds, payload, handled_to, due_at, scheduled_by)
			VALUES ('a', 'q', 'p', 60, '{}', now(), now() + interval '1000 days', current_user::regrole)`)
		require.Equal(t, map[string]string{"q": "z199999", "other": "a"}[other], f.why("", explain.Instance{}).Schedule)
		require.Less(t, f.buffers("insight/explain/schedule", "q", "p", int64(1000)), 5000, fmt.Sprint(other))
	}
}

func TestTheHeadersOfTheMessageAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	headers, err := queue.ParseHeaders("headers", []byte(`{"Tenant": "acme"}`))
	require.NoError(t, err)
	_, err = f.store.Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: "p", TransactionID: "with", Payload: []byte(`1`), Headers: headers}})
	require.NoError(t, err)
	f.push("without")
	require.Equal(t, map[string]string{"tenant": "acme"}, f.why("with", explain.Instance{}).Headers.Map())
	require.Nil(t, f.why("without", explain.Instance{}).Headers.Map())
	require.Nil(t, f.why("", explain.Instance{}).Headers.Map())
}
