package pages

import (
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// waitersShown is how many rows each list of the dispatcher shows.
const waitersShown = 100

type dispatcherData struct {
	*api.Dispatcher
	MoreGroups, MoreDue, MoreBackoff int
}

func dispatcher(r *page.Request) (*page.Content, error) {
	found, err := source.Read[api.Dispatcher](r.Ctx, r.Client, r.Caller, "/api/v1/status/dispatcher")
	if err != nil {
		return nil, err
	}
	shown := *found
	data := &dispatcherData{Dispatcher: &shown}
	shown.Groups, data.MoreGroups = clip(found.Groups)
	shown.Due, data.MoreDue = clip(found.Due)
	shown.Backoff, data.MoreBackoff = clip(found.Backoff)
	return &page.Content{Title: "Dispatcher", Data: data, Commands: []page.Command{
		r.Get("Show the waiting requests", "/api/v1/status/dispatcher", "waiting"),
	}}, nil
}

// clip returns the first elements, and the number of omitted elements.
func clip[T any](list []T) ([]T, int) {
	n := min(len(list), waitersShown)
	return list[:n], len(list) - n
}
