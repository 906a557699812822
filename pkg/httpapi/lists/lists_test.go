package lists_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listed[T any](t *testing.T, f *apitest.Fakes, target string) (page T) {
	t.Helper()
	rec := apitest.Call(f, http.MethodGet, target, "")
	require.Equal(t, http.StatusOK, rec.Code, "%s: %s", target, rec.Body)
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &page))
	return page
}

// shop has queues whose names have characters that are special in patterns.
func shop() *apitest.Fakes {
	old := time.Unix(1000, 0)
	queues := []totals.Queue{{Name: "100% sure"}, {Name: "1000 sure"}, {Name: "Orders.old"}, {Name: "a_b"}, {Name: "acb"}, {Name: "mail orders"}, {Name: "orders"}}
	for i := range queues {
		q := &queues[i]
		q.Namespace, q.Task, q.Groups, q.Partitions, q.Messages = "shop", "mail", 1, 2, totals.Counts{Total: 10, Pending: int64(i), Processing: 1}
	}
	queues[6].Namespace, queues[6].Task, queues[6].DeadLetters, queues[6].Oldest = "sales", "", 5, old
	return &apitest.Fakes{
		Totals: totals.Snapshot{At: old.Add(time.Minute), Queues: queues, Groups: []totals.Group{{Queue: "acb", Name: "g"}, {Queue: "orders", Name: "big g"}, {Queue: "orders", Name: "g"}}},
		Recent: map[string]history.Recent{"orders": {Pushed: 120, Delivered: 90, Failed: 7}, "acb": {Pushed: 6, Failed: 9}, "gone": {Pushed: 600}, "a_b": {Pushed: 6}},
		Served: map[history.GroupOf]history.Served{{Queue: "orders", Group: "g"}: {Delivered: 90, By: []history.Server{{Hostname: "one", PID: 7, Waiting: 3}}}},
	}
}

func namesOf(page api.QueuePage) (names []string) {
	for _, q := range page.Queues {
		names = append(names, q.Name)
	}
	return names
}

// A search finds the part of a name as it is written. The name itself comes first, then the names that begin with it.
func TestASearchFindsTheNameItselfFirst(t *testing.T) {
	t.Parallel()
	f := shop()
	for part, want := range map[string][]string{
		"orders": {"orders", "Orders.old", "mail orders"}, "ORDERS": {"Orders.old", "orders", "mail orders"}, "%": {"100% sure"}, "_": {"a_b"}, "0%": {"100% sure"}, "nothing": nil,
	} {
		require.Equal(t, want, namesOf(listed[api.QueuePage](t, f, "/api/v1/queues?name="+url.QueryEscape(part))), part)
	}
	page := listed[api.QueuePage](t, f, "/api/v1/queues?limit=1&name=orders")
	for _, want := range []string{"Orders.old", "mail orders"} {
		page = listed[api.QueuePage](t, f, "/api/v1/queues?limit=1&name=orders&cursor="+url.QueryEscape(*page.Pagination.Next))
		require.Equal(t, []string{want}, namesOf(page))
	}
	require.Nil(t, page.Pagination.Next)
	groups := listed[api.GroupPage](t, f, "/api/v1/groups?name=g").Groups
	require.Equal(t, []string{"g", "g", "big g"}, []string{groups[0].Name, groups[1].Name, groups[2].Name})
}

// The failures of the last hour come from the history, and sort all queues.
func TestQueuesAreSortedByTheirFailures(t *testing.T) {
	t.Parallel()
	page := listed[api.QueuePage](t, shop(), "/api/v1/queues?sort=failed&limit=3")
	require.Equal(t, []string{"acb", "orders", "100% sure"}, namesOf(page))
	require.Equal(t, []int64{9, 7, 0}, []int64{*page.Queues[0].FailedLastHour, *page.Queues[1].FailedLastHour, *page.Queues[2].FailedLastHour})
	require.Nil(t, listed[api.QueuePage](t, shop(), "/api/v1/queues").Queues[0].FailedLastHour)
	next := listed[api.QueuePage](t, shop(), "/api/v1/queues?sort=failed&limit=1&cursor="+url.QueryEscape(*page.Pagination.Next))
	require.Equal(t, []string{"1000 sure"}, namesOf(next))
}

// A namespace has the sums over its queues. The rates leave out queues that are deleted.
func TestNamespacesAndTasksHaveTheSumsOfTheirQueues(t *testing.T) {
	t.Parallel()
	f := shop()
	found := listed[api.TagTotals](t, f, "/api/v1/totals/namespaces?sort=queues")
	age := int64(60)
	require.Equal(t, []api.CountedTag{
		{Name: "shop", Queues: 6, Groups: 6, Partitions: 12, Messages: api.ListedCounts{Total: 60, Pending: 15, Processing: 6}, PushedPerSecond: .2, FailedLastHour: 9},
		{
			Name: "sales", Queues: 1, Groups: 1, Partitions: 2, Messages: api.ListedCounts{Total: 10, Pending: 6, Processing: 1}, DeadLetters: 5, OldestSeconds: &age,
			PushedPerSecond: 2, DeliveredPerSecond: 1.5, FailedLastHour: 7,
		},
	}, found.Tags)
	require.Equal(t, "sales", listed[api.TagTotals](t, f, "/api/v1/totals/namespaces?sort=deadLetters").Tags[0].Name)
	page := listed[api.TagTotals](t, f, "/api/v1/totals/namespaces?limit=1")
	require.Equal(t, "sales", page.Tags[0].Name)
	page = listed[api.TagTotals](t, f, "/api/v1/totals/namespaces?limit=1&cursor="+url.QueryEscape(*page.Pagination.Next))
	require.Equal(t, "shop", page.Tags[0].Name)
	require.Nil(t, page.Pagination.Next)
	require.Len(t, listed[api.TagTotals](t, f, "/api/v1/totals/namespaces?name=HOP").Tags, 1)
	tasks := listed[api.TagTotals](t, f, "/api/v1/totals/tasks").Tags
	require.Len(t, tasks, 1, "a queue without a task is left out")
	require.EqualValues(t, 6, tasks[0].Queues)
	require.Contains(t, apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/totals/tasks?sort=size", ""), http.StatusBadRequest), "queues")
}

// The list of groups says on request which instances serve a group.
func TestGroupsSayWhoServesThem(t *testing.T) {
	t.Parallel()
	f := shop()
	groups := listed[api.GroupPage](t, f, "/api/v1/groups?served=true&queue=orders").Groups
	require.Equal(t, &api.Served{Instances: []api.ServingInstance{}}, groups[0].Served)
	require.Equal(t, &api.Served{DeliveredPerSecond: 1.5, Instances: []api.ServingInstance{{Hostname: "one", PID: 7, Waiting: 3}}}, groups[1].Served)
	require.Nil(t, listed[api.GroupPage](t, f, "/api/v1/groups").Groups[0].Served)
}

// A search for partitions says how far it is. Each cursor of an answer leads to the same place.
func TestASearchForPartitionsGoesOn(t *testing.T) {
	t.Parallel()
	f := shop()
	place := stats.SearchPlace{Wrapped: true, Begun: true, Examined: 1, Name: "cus_tomer"}
	var from stats.SearchPlace
	f.Search = func(_ string, at stats.SearchPlace, _ int) ([]stats.FoundPartition, stats.SearchPlace, bool, error) {
		from = at
		return []stats.FoundPartition{{ID: apitest.IDOne, Name: "x"}}, place, true, nil
	}
	page := listed[api.PartitionSearch](t, f, "/api/v1/resources/queues/orders/search?name=x")
	of := int64(2)
	require.Equal(t, api.PartitionSearch{
		Partitions: []api.FoundPartition{{ID: apitest.IDOne.String(), Name: "x"}}, Searched: 1, Of: &of, Pagination: api.Page{Limit: 50, Next: page.Pagination.Next},
	}, page)
	require.Zero(t, from)
	listed[api.PartitionSearch](t, f, "/api/v1/resources/queues/orders/search?name=x&cursor="+url.QueryEscape(*page.Pagination.Next))
	require.Equal(t, place, from)
	for target, says := range map[string]string{"": "name is missing", "?name=x&cursor=": "pagination.next", "?name=x&cursor=true_x_1_a": "pagination.next", "?name=x&cursor=true_true_-1_a": "pagination.next"} {
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/resources/queues/orders/search"+target, ""), http.StatusBadRequest), says, target)
	}
}
