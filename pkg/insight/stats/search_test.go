package stats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A search finds each partition once, and the names that begin with the part first, whatever the limit and the size of the queue.
func TestASearchFindsEachPartitionOnce(t *testing.T) {
	r := newFixture(t)
	_, _, _, err := r.groups().SearchPartitions(t.Context(), "many", "x", stats.SearchPlace{}, 10)
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
	for _, name := range []string{"a_b", "a%b", "aXb", "50% off", "zz a_b", "A_B"} {
		r.push("few", name, "1")
	}
	search := func(queueName, part string, limit int) (names []string, examined int64) {
		t.Helper()
		for at, more := (stats.SearchPlace{}), true; more; {
			var found []stats.FoundPartition
			found, at, more, err = r.groups().SearchPartitions(t.Context(), queueName, part, at, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(found), limit)
			for _, one := range found {
				names = append(names, one.Name)
			}
			examined = at.Examined
		}
		return names, examined
	}
	for _, limit := range []int{1, 2, 100} {
		names, examined := search("few", "a_b", limit)
		require.ElementsMatch(t, []string{"a_b", "zz a_b", "A_B"}, names, "limit %d", limit)
		require.Equal(t, "a_b", names[0])
		require.EqualValues(t, 6, examined)
		names, _ = search("few", "%", limit)
		require.ElementsMatch(t, []string{"a%b", "50% off"}, names)
	}
	_, err = r.pool.Exec(t.Context(), `INSERT INTO belfry.partition (queue_id, name) SELECT q.id, 'p' || i FROM belfry.queue q, generate_series(1, 25000) i WHERE q.name = 'few'`)
	require.NoError(t, err)
	names, examined := search("few", "p2500", 1000)
	require.Equal(t, []string{"p2500", "p25000"}, names)
	require.EqualValues(t, 25_006, examined)
	names, examined = search("few", "24999", 7)
	require.Equal(t, []string{"p24999"}, names)
	require.EqualValues(t, 25_006, examined)
}
