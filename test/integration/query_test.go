package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnreadableQueryValuesFallBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	for query, delivered := range map[string]int{
		"":                           1,
		"batch=abc":                  1,
		"batch=":                     1,
		"batch=-3":                   1,
		"batch=5x":                   5,
		"batch=%205":                 5,
		"batch=%2B3":                 3,
		"batch=3.9":                  3,
		"batch=99999999999999999999": 1,
		"batch=1000000000":           7,
		"xbatch=5":                   1,
		"batch=2&batch=5":            2,
		"partitions=abc&batch=9":     7,
		"partitions=0&batch=9":       7,
		"unknown=1&batch=4":          4,
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			c := s.client(t).loose()
			queue := "q?" + query
			c.pushIDs(queue, "", "1", "2", "3", "4", "5", "6", "7")
			require.Len(t, c.popIDs(queue, query), delivered)
		})
	}
	t.Run("booleans", func(t *testing.T) {
		t.Parallel()
		c := s.client(t).loose()
		for value, isTrue := range map[string]bool{"true": true, "1": true, "TRUE": false, "yes": false, "": false, "true%20": false} {
			queue := "autoAck=" + value
			c.pushIDs(queue, "", "a")
			got := c.pop(queue, "autoAck="+value).ok(http.StatusOK)
			require.Equal(t, isTrue, got.LeaseID == "", value)
			if !isTrue {
				waited := c.pop(queue, "timeout=60000&wait="+value)
				require.Equal(t, http.StatusNoContent, waited.Status)
				require.Less(t, waited.Took, patience, "wait=%s does not wait", value)
			}
		}
	})
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		c := s.client(t).loose()
		require.Equal(t, http.StatusNoContent, c.pop("none", "wait=true&timeout=-5").Status)
		require.Equal(t, http.StatusNoContent, c.pop("none", "wait=1&timeout=50ms").Status)
	})
	t.Run("batch 0 of one partition", func(t *testing.T) {
		t.Parallel()
		c := s.client(t).loose()
		c.pushIDs("zero", "p", "a")
		for _, query := range []string{"batch=0", "batch=00", "batch=0x"} {
			require.Equal(t, http.StatusNoContent, c.popPartition("zero", "p", query).Status, query)
		}
		require.Equal(t, []string{"a"}, c.popIDs("zero", "batch=0"), "without a partition, 0 counts as 1")
	})
}
