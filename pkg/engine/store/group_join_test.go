package store_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Forty consumers of a new group start at once. One of them registers the group, and the others do
// not try. Each try would take an id from the sequence.
func TestConcurrentConsumersRegisterTheirGroupOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.push("p", "a")
	var consumers errgroup.Group
	for range 40 {
		consumers.Go(func() error {
			_, err := b.Pop(t.Context(), request("g", 1))
			return err
		})
	}
	require.NoError(t, consumers.Wait())
	var tries int
	b.scan("SELECT last_value FROM belfry.consumer_group_id_seq", nil, &tries)
	require.Equal(t, 1, tries)
}

// join pops for the group until its join of the queue has ended. It requires that nothing is found.
func (b *bench) join(group string) {
	b.t.Helper()
	for {
		delivery, err := b.Pop(b.t.Context(), request(group, 1))
		if errors.Is(err, queue.ErrJoining) {
			continue
		}
		require.NoError(b.t, err)
		require.Empty(b.t, delivery.Messages)
		return
	}
}
