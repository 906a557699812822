package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestParseAckStatusAcceptsOnlyTheTextsOfTheAPI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]queue.AckStatus{
		"completed":  queue.AckCompleted,
		"success":    queue.AckCompleted,
		"failed":     queue.AckFailed,
		"dlq":        queue.AckDead,
		"retry":      queue.AckRetry,
		"":           queue.AckUnknown,
		"COMPLETED":  queue.AckUnknown,
		"complete":   queue.AckUnknown,
		"failed!":    queue.AckUnknown,
		"dead":       queue.AckUnknown,
		"processing": queue.AckUnknown,
	} {
		require.Equal(t, want, queue.ParseAckStatus(text), "%q", text)
	}
	require.Equal(t, queue.AckUnknown, queue.AckItem{}.Status, "an ack without a status has no effect")
}
