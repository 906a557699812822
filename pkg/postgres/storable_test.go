package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// Every text is stored, also one with more new characters than the questions of one call tell apart, and one that comes
// while the database does not answer. JSON keeps its value.
func TestTextsAreMadeStorable(t *testing.T) {
	t.Parallel()
	pool := open(t, config(pgtest.EncodedDatabase(t, "LATIN1")))
	ctx := soon(t)
	require.Equal(t, "aé????", pool.Storable(ctx, "aé日😀\x00\xff"))
	require.Equal(t, `["é\u65e5\ud83d\ude00","\u0000"]`, string(pool.StorableJSON(ctx, []byte(`["é日😀","\u0000"]`))))
	var every []rune
	for c := rune(0x80); c < 0xD800; c++ {
		every = append(every, c)
	}
	stores := func(text string) {
		var same string
		require.NoError(t, pool.QueryRow(ctx, `SELECT $1::text`, text).Scan(&same))
		require.Equal(t, text, same)
	}
	for range 3 {
		text := pool.Storable(ctx, string(every))
		stores(text)
		stores(string(pool.StorableJSON(ctx, []byte(`"`+string(every)+`"`))))
		require.Len(t, []rune(text), len(every))
	}
	require.Equal(t, "öß", pool.Storable(ctx, "öß"))
	pool.Close()
	require.Equal(t, "aéöß??", pool.Storable(ctx, "aéöß日Ё"))
}
