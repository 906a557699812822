package push_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
)

// A push that was never sent to the database does not count for maxSize. The database did not keep up, or the
// server stopped.
func TestOnlyWhatMayBeStoredCounts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want quota.Outcome
	}{
		{nil, quota.Stored},
		{fmt.Errorf("%w: %w", batch.ErrWithdrawn, context.DeadlineExceeded), quota.NotStored},
		{batch.ErrClosed, quota.NotStored},
		{&pgconn.PgError{Code: "BF001"}, quota.NotStored},
		{io.ErrUnexpectedEOF, quota.Unknown},
		{context.DeadlineExceeded, quota.Unknown},
	} {
		require.Equal(t, c.want, push.Outcome(c.err), "%v", c.err)
	}
}
