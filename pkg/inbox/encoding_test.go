package inbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/secret"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// Some encodings allow texts that are not convertible to UTF-8: SQL_ASCII allows any bytes, EUC_JP has
// characters that Unicode lacks. Rows with such a text are rejected and block no other row.
func TestUnreadableRowsAreRejected(t *testing.T) {
	t.Parallel()
	for encoding, unreadable := range map[string]string{"SQL_ASCII": `\xe9`, "EUC_JP": `\x8fa2a1`} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.EncodedDatabase(t, encoding)
			r := &fixture{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
			r.runStep() // the next scan is not a full scan
			s := r.session()
			s.insert("a", "before")
			bad := fmt.Sprintf(`convert_from('%s', '%s')`, unreadable, encoding)
			for _, columns := range []string{
				`('q' || ` + bad + `, 'a', '{}', 'queue')`, `('q', 'a' || ` + bad + `, '{}', 'partition')`,
				`('q', 'a', ('"' || ` + bad + ` || '"')::json, 'payload')`, `('q', 'a', '{}', 'id' || ` + bad + `)`,
			} {
				s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ` + columns)
			}
			s.insert("a", "behind")
			r.runStep()
			require.Equal(t, []string{"before", "behind"}, r.stored("a"))
			require.Zero(t, r.waiting())
			require.Equal(t, []string{"queue", "partition", "payload", "id"}, r.texts(
				`SELECT substring(transaction_id FROM '^[a-z]+') FROM belfry.inbox_rejected WHERE code = 'invalid' AND reason LIKE '%UTF-8%' ORDER BY id`))
		})
	}
}

// The search for an unreadable row may time out because of large rows. It then searches fewer rows per
// statement. Here a row with the payload "large" stands for a large row: its check takes 0.2 s.
func TestUnreadableRowsAreFoundAmongLargeRows(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EncodedDatabase(t, "SQL_ASCII")
	r := &fixture{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
	r.runStep()
	s := r.session()
	s.exec(`ALTER FUNCTION belfry.is_utf8 RENAME TO is_utf8_without_delay; CREATE FUNCTION belfry.is_utf8(p_text text) RETURNS boolean LANGUAGE sql AS $$
		SELECT belfry.is_utf8_without_delay(p_text) FROM pg_sleep(CASE p_text WHEN '"large"' THEN 0.2 ELSE 0 END) $$`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) SELECT 'q', 'a', '"large"', 'l' || i FROM generate_series(1, 3) AS i`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('q', 'a', '{}', convert_from('\xe9', 'SQL_ASCII'))`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) SELECT 'q', 'a', '"large"', 'm' || i FROM generate_series(1, 20) AS i`)
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.RequestTimeout, cfg.PoolSize = secret.Secret(dsn), time.Second, Connections
	sequencerPool, err := postgres.Open(t.Context(), cfg, "inbox-test", 0)
	require.NoError(t, err)
	t.Cleanup(sequencerPool.Close)
	r.SequencerPool = sequencerPool
	r.runStep()
	require.Len(t, r.stored("a"), 23)
	require.Zero(t, r.waiting())
	require.EqualValues(t, 1, r.number("SELECT count(*) FROM belfry.inbox_rejected"))
}
