package inbox

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// A database may hold what is no text for Belfry: any bytes, where its encoding is
// SQL_ASCII, or letters that Unicode lacks.
func TestWhatCannotBeReadBlocksNobody(t *testing.T) {
	t.Parallel()
	for encoding, unreadable := range map[string]string{"SQL_ASCII": `\xe9`, "EUC_JP": `\x8fa2a1`} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.EncodedDatabase(t, encoding)
			r := &room{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
			r.turned() // the next look is for what comes after this one
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
			r.turned()
			require.Equal(t, []string{"before", "behind"}, r.stored("a"))
			require.Zero(t, r.waiting())
			require.Equal(t, []string{"queue", "partition", "payload", "id"}, r.texts(
				`SELECT substring(transaction_id FROM '^[a-z]+') FROM belfry.inbox_rejected WHERE code = 'invalid' AND reason LIKE '%UTF-8%' ORDER BY id`))
		})
	}
}
