package inbox

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

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

// The search for an unreadable row may time out because of large rows. It then searches fewer rows per statement. Here a
// row with the payload "large" stands for a large row: a statement that checks five of them times out.
func TestUnreadableRowsAreFoundAmongLargeRows(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EncodedDatabase(t, "SQL_ASCII")
	r := &fixture{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
	r.runStep()
	s := r.session()
	s.exec(`ALTER FUNCTION belfry.is_utf8 RENAME TO is_utf8_of_any_size;
		CREATE SEQUENCE public.timeouts;
		CREATE FUNCTION belfry.is_utf8(p_text text) RETURNS boolean LANGUAGE plpgsql AS $$
		DECLARE
		    v_statement text := extract(epoch FROM statement_timestamp())::text;
		    v_large     int := 0;
		BEGIN
		    IF p_text = '"large"' THEN
		        IF split_part(current_setting('test.large', true), ' ', 1) = v_statement THEN
		            v_large := split_part(current_setting('test.large'), ' ', 2)::int;
		        END IF;
		        PERFORM set_config('test.large', v_statement || ' ' || v_large + 1, false);
		        IF v_large = 4 THEN
		            PERFORM nextval('public.timeouts');
		            RAISE 'canceling statement due to statement timeout' USING ERRCODE = 'query_canceled';
		        END IF;
		    END IF;
		    RETURN belfry.is_utf8_of_any_size(p_text);
		END $$`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) SELECT 'q', 'a', '"large"', 'l' || i FROM generate_series(1, 3) AS i`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('q', 'a', '{}', convert_from('\xe9', 'SQL_ASCII'))`)
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) SELECT 'q', 'a', '"large"', 'm' || i FROM generate_series(1, 20) AS i`)
	r.runStep()
	require.Len(t, r.stored("a"), 23)
	require.Zero(t, r.waiting())
	require.EqualValues(t, 1, r.number("SELECT count(*) FROM belfry.inbox_rejected"))
	require.EqualValues(t, 1, r.number("SELECT count(*) FROM public.timeouts WHERE is_called"), "a search timed out")
}
