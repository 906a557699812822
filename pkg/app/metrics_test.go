package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
)

// Any number of scrapes causes at most one query a second, even while the database does not answer.
func TestScrapesShareOneQueryASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads int
		var failure error
		reg := prometheus.NewRegistry()
		reg.MustRegister(lateness(func(context.Context, time.Duration) (catalog.Lateness, error) {
			reads++
			return catalog.Lateness{Groups: int64(reads)}, failure
		}, time.Minute))
		scrape := func(families int) {
			var scrapes sync.WaitGroup
			for range 20 {
				scrapes.Go(func() {
					found, err := reg.Gather()
					require.NoError(t, err)
					require.Len(t, found, families)
				})
			}
			scrapes.Wait()
		}
		scrape(2)
		scrape(2)
		require.Equal(t, 1, reads)
		time.Sleep(scrapeAge)
		failure = errors.New("the database does not answer")
		scrape(0)
		scrape(0)
		require.Equal(t, 2, reads)
		time.Sleep(scrapeAge)
		failure = nil
		scrape(2)
		require.Equal(t, 3, reads)
	})
}
