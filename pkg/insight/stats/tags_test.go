package stats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

func TestTagPairsAreListedOnce(t *testing.T) {
	r := newFixture(t)
	r.exec(`INSERT INTO belfry.queue (name, namespace, task) SELECT 'q' || i, CASE WHEN i % 4 < 3 THEN 'n' || i % 4 ELSE '' END, CASE WHEN i % 2 = 0 THEN 't' ELSE '' END
		FROM generate_series(1, 40) i`)
	want := []api.TagPair{{Namespace: "n0", Task: "t"}, {Namespace: "n1"}, {Namespace: "n2", Task: "t"}}
	for limit := 1; limit < 5; limit++ {
		var found []api.TagPair
		for after := (api.TagPair{}); ; after = found[len(found)-1] {
			page, err := r.TagPairs(t.Context(), after, limit)
			require.NoError(t, err)
			if found = append(found, page...); len(page) < limit {
				break
			}
		}
		require.Equal(t, want, found, limit)
	}
}
