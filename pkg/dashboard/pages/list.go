package pages

import (
	"slices"

	"github.com/belfry-mq/belfry/pkg/dashboard/changes"
	"github.com/belfry-mq/belfry/pkg/dashboard/listing"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/schedules"
)

// List returns the pages. The first pages are the pages of the navigation, in its order.
func List() []*page.Page {
	return slices.Concat([]*page.Page{
		{Path: "", Name: "Overview", Template: "overview", Load: overview},
		{Path: "queues", Name: "Queues", Template: "queues", Load: listing.Queues},
		{Path: "groups", Name: "Groups", Template: "groups", Load: listing.Groups},
		{Path: "messages", Name: "Messages", Template: "messages", Load: messages},
		{Path: "dead", Name: "Dead letters", Template: "dead", Load: deadLetters},
		{Path: "dispatcher", Name: "Dispatcher", ForAll: true, Template: "dispatcher", Load: dispatcher},
		{Path: "history", Name: "History", Template: "history", Load: history},
		{Path: "system", Name: "System", Template: "system", Load: system},
		{Path: "namespaces", Under: "queues", Template: "tags", Load: listing.Namespaces},
		{Path: "partitions", Under: "queues", Template: "partitions", Load: listing.Partitions},
		{Path: "tasks", Under: "queues", Template: "tags", Load: listing.Tasks},
		{Path: "message", Under: "messages", Payloads: true, Template: "message", Load: message},
		{Path: "traces", Under: "messages", Payloads: true, Template: "traces", Load: traces},
		{Path: "producers", Under: "system", Payloads: true, Template: "producers", Load: producers},
		{Path: "streams", Under: "system", Template: "streams", Load: streams},
		{Path: "maintenance", Under: "system", Template: "maintenance", Load: maintenance},
		{Path: "access", Under: "system", Template: "access", Load: access},
		{Path: "queue", Under: "queues", Template: "queue", Load: queue},
		{Path: "options", Under: "queues", Template: "options", Load: options},
		{Path: "group", Under: "queues", Template: "group", Load: group},
	}, schedules.Pages(), changes.Pages())
}
