package listing

import (
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

type groupsData struct {
	Rows []api.ListedGroup
	// Name and Queue are the filters in force. Filtered says that there is one.
	Name, Queue string
	Filtered    bool
	// Sort is a key of sorts. Sorts are the links for other orders.
	Sort        string
	Sorts       map[string]template.URL
	First, Next template.URL
	CountedAt   time.Time
}

// Groups is the page of all groups. The group that is furthest behind in time comes first.
func Groups(r *page.Request) (*page.Content, error) {
	data := &groupsData{Name: r.Query.Get("name"), Queue: r.Query.Get("queue"), Sort: r.Query.Get("sort"), Sorts: sortLinks(r, "groups")}
	if _, known := sorts[data.Sort]; !known && data.Sort != "name" {
		data.Sort = "lag"
	}
	data.Sorts["name"] = page.With(r, "groups", "sort", "name")
	data.Filtered = data.Name != "" || data.Queue != ""
	path := string(page.Link("/api/v1/groups", "limit", queuesPage, "served", "true", "name", data.Name, "queue", data.Queue, "sort", sorts[data.Sort]))
	if r.Query.Has("after") {
		path += "&cursor=" + template.URLQueryEscaper(r.Query.Get("after"))
		data.First = page.With(r, "groups", "after", "")
	}
	found, err := source.Read[api.GroupPage](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	data.Rows, data.CountedAt = found.Groups, found.CountedAt
	if next := found.Pagination.Next; next != nil {
		data.Next = page.With(r, "groups", "after", *next)
	}
	return &page.Content{Title: "Groups", Data: data, Commands: []page.Command{
		r.Get("List the groups", path, "group", "list"),
		r.Get("List the places that are behind", "/api/v1/consumer-groups/lagging", "group", "lagging"),
	}}, nil
}

// Servers describes the instances that serve a group.
func (*groupsData) Servers(g api.ListedGroup) string {
	if g.Served == nil {
		return ""
	}
	var texts []string
	for _, one := range g.Served.Instances {
		text := one.Hostname + " · " + strconv.FormatInt(one.PID, 10)
		if one.Waiting > 0 {
			text += ", " + page.Plural(one.Waiting, "waiting request", "waiting requests")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
