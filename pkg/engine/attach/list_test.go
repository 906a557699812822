package attach_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// The pages of the server have each attachment once, with its failures. Patterns limit them to some queues.
func TestTheServerListsAttachments(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int); CREATE TABLE "a b" (id int); ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue NOT LIKE 'bad%')`)
	p.attach(attach.Request{Table: "t", Queue: "good"})
	p.attach(attach.Request{Table: "t", Queue: "bad", Condition: "new.id > 1", Events: []string{"insert"}, Key: []string{"id"}})
	p.attach(attach.Request{Table: `"a b"`, Queue: "good"})
	p.exec(`INSERT INTO t VALUES (2)`)
	lister := attach.NewLister(enginetest.Pool(t, p.conn.Config().ConnString()))
	page := func(allowed []string, after, limit int64) (found []attach.Attachment) {
		found, err := lister.List(t.Context(), allowed, after, limit)
		require.NoError(t, err)
		return found
	}
	first := page(nil, 0, 2)
	require.Len(t, first, 2)
	bad := first[1]
	require.Equal(t, []any{"public.t", "bad", []string{"insert"}, []string{"id"}, int64(1), int64(1)}, []any{bad.Table, bad.Queue, bad.Events, bad.Key, bad.Triggers, bad.Failures})
	require.Contains(t, bad.LastFailure, "broken")
	require.False(t, bad.LastFailedAt.IsZero())
	second := page(nil, bad.ID, 2)
	require.Len(t, second, 1)
	require.Equal(t, `public."a b"`, second[0].Table)
	require.Empty(t, page(nil, second[0].ID, 2))
	only := page([]string{"b*"}, 0, 2)
	require.Len(t, only, 1)
	require.Equal(t, bad, only[0])
}
