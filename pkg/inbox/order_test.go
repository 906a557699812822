package inbox

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func describe(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Sprintf("%s %s / %s", pg.Code, pg.Message, pg.Hint)
	}
	return err.Error()
}

func TestPlainInsertIsAPush(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.session().exec(`INSERT INTO belfry.inbox (queue, payload) VALUES ('orders', '{"a": 1}')`)
	r.turned()
	require.Equal(t, []string{`orders Default {"a": 1}`}, r.texts(`SELECT q.name || ' ' || p.name || ' ' || m.payload::text
		FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id`))
	require.Zero(t, r.waiting())
	require.Equal(t, int64(1), r.metric(t, "belfry_inbox_sequenced_total"))
}

func TestARunningSequencerHearsOfCommits(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.start(t, r.dsn)
	s := r.session()
	for _, id := range numbered("m", 5) {
		s.insert("a", id)
		r.await("it is sequenced", func() bool { return r.waiting() == 0 })
	}
	require.Equal(t, numbered("m", 5), r.stored("a"))
}

// The ids of a transaction may lie before and behind those that were taken while it
// was open: none of its rows passes another one of the same partition.
func TestATransactionStaysInOrderAroundOthers(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	open, other := r.session(), r.session()
	open.exec("BEGIN")
	var want []string
	for i := range 30 {
		id := fmt.Sprintf("open%d", i)
		open.insert("a", id)
		want = append(want, id)
		other.insert("a", fmt.Sprintf("other%d", i))
		if i%10 == 5 {
			r.turned()
		}
	}
	open.exec("COMMIT")
	r.turned()
	var of []string
	for _, id := range r.stored("a") {
		if id[:4] == "open" {
			of = append(of, id)
		}
	}
	require.Equal(t, want, of)
	require.Zero(t, r.waiting())
}
