package queue_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestCodeOfUnwrapsErrors(t *testing.T) {
	t.Parallel()
	gone := &queue.Error{Code: queue.CodeLeaseGone, Message: "Lease already expired"}
	for name, c := range map[string]struct {
		err  error
		want queue.Code
	}{
		"nil":                   {nil, ""},
		"no code":               {io.EOF, queue.CodeInternal},
		"bare":                  {gone, queue.CodeLeaseGone},
		"wrapped":               {fmt.Errorf("extending: %w", gone), queue.CodeLeaseGone},
		"wrapped twice":         {fmt.Errorf("a: %w", fmt.Errorf("b: %w", gone)), queue.CodeLeaseGone},
		"joined":                {errors.Join(io.EOF, gone), queue.CodeLeaseGone},
		"the outer code counts": {&queue.Error{Code: queue.CodeUnavailable, Err: gone}, queue.CodeUnavailable},
		"only its text":         {errors.New(gone.Error()), queue.CodeInternal},
	} {
		require.Equal(t, c.want, queue.CodeOf(c.err), name)
	}
}

func TestErrorIncludesAndUnwrapsItsCause(t *testing.T) {
	t.Parallel()
	require.Equal(t, "send it again", (&queue.Error{Message: "send it again"}).Error())
	err := &queue.Error{Code: queue.CodeUnavailable, Message: "the database is away", Err: io.ErrUnexpectedEOF}
	require.Equal(t, "the database is away: unexpected EOF", err.Error())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestInvalidfFormatsTheMessage(t *testing.T) {
	t.Parallel()
	err := queue.Invalidf("items[%d].queue is %q", 3, "x")
	require.Equal(t, &queue.Error{Code: queue.CodeInvalid, Message: `items[3].queue is "x"`}, err)
}
