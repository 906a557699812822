package pages

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// placesRead is how many places of a group are read, and placesShown how many are listed.
	placesRead  = "2000"
	placesShown = 200
)

type groupData struct {
	Queue, Name string
	// Group is nil if it does not exist in the queue.
	Group *source.Group
	// Places are the partitions with the largest lag. More is how many are not listed, at least.
	Places    []source.Place
	More      int
	Truncated bool
	Leases    int
	Seek      *seekData
	Chosen    *source.Explanation
	Partition string
}

// seekData is the preview of a seek.
type seekData struct {
	// To is beginning, end or time, and At the instant.
	To, At string
	// Again is about how many messages the group gets again, and Skipped how many it never gets.
	Again, Skipped int64
	// Known says that the number is not a guess.
	Known bool
	Error string
}

func group(r *page.Request) (*page.Content, error) {
	data := &groupData{Queue: r.Query.Get("q"), Name: r.Query.Get("g"), Partition: r.Query.Get("p")}
	groups, err := source.Read[[]source.Group](r.Ctx, r.Client, r.Caller, "/api/v1/consumer-groups")
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(*groups, func(g source.Group) bool { return g.Name == data.Name && g.QueueName == data.Queue }); i >= 0 {
		data.Group = &(*groups)[i]
	}
	places, err := source.Read[map[string]source.Places](r.Ctx, r.Client, r.Caller, "/api/v1/consumer-groups/"+page.Esc(data.Name)+"?limit="+placesRead)
	if err != nil {
		return nil, err
	}
	data.list((*places)[data.Queue])
	if data.Partition != "" {
		data.Chosen, err = source.Read[source.Explanation](r.Ctx, r.Client, r.Caller,
			string(page.Link("/api/v1/explain", "queue", data.Queue, "partition", data.Partition, "consumerGroup", data.Name)))
		if err != nil {
			return nil, err
		}
	}
	if to := r.Query.Get("seek"); to != "" && data.Group != nil {
		if data.Seek, err = previewSeek(r, data, to); err != nil {
			return nil, err
		}
	}
	path := "/api/v1/consumer-groups/" + page.Esc(data.Name) + "/queues/" + page.Esc(data.Queue)
	return &page.Content{Title: page.GroupName(data.Name) + " in " + data.Queue, Data: data, Commands: []page.Command{
		r.Get("Show the places of the group", "/api/v1/consumer-groups/"+page.Esc(data.Name), "group", "get", data.Name),
		r.Command("Move the group to the beginning", "POST", path+"/seek", `{"toBeginning": true}`, []string{"group", "seek", data.Name, data.Queue, "--to-beginning"}),
		r.Command("Pause the group", "POST", path+"/pause", "", []string{"group", "pause", data.Name, data.Queue}),
		r.Command("Resume the group", "POST", path+"/resume", "", []string{"group", "resume", data.Name, data.Queue}),
		r.Get("Explain a partition", string(page.Link("/api/v1/explain", "queue", data.Queue, "consumerGroup", data.Name)), append([]string{"explain", "--queue", data.Queue}, page.CLIGroup(data.Name)...)...),
	}}, nil
}

// list keeps the places with the largest lag.
func (d *groupData) list(found source.Places) {
	all := slices.Clone(found.Partitions)
	slices.SortStableFunc(all, func(a, b source.Place) int {
		return cmp.Or(cmp.Compare(b.TimeLagSeconds, a.TimeLagSeconds), cmp.Compare(b.OffsetLag, a.OffsetLag), cmp.Compare(a.Partition, b.Partition))
	})
	for i := range all {
		if all[i].LeaseActive {
			d.Leases++
		}
	}
	shown, size := 0, 0
	for shown < min(len(all), placesShown) && size < maxCells {
		size += 2*len(page.Link("group", "q", d.Queue, "g", d.Name, "p", all[shown].Partition)) + len(all[shown].Partition)
		shown++
	}
	d.Places, d.More, d.Truncated = all[:shown], len(all)-shown, found.Truncated
}

// previewSeek counts what a seek of the group would deliver again or skip.
func previewSeek(r *page.Request, d *groupData, to string) (*seekData, error) {
	seek := &seekData{To: to, At: r.Query.Get("at"), Known: true}
	status, err := source.Read[source.QueueStatus](r.Ctx, r.Client, r.Caller, "/api/v1/status/queues/"+page.Esc(d.Queue)+"?limit=1")
	if err != nil {
		return nil, err
	}
	switch to {
	case "beginning":
		seek.Again = max(0, status.Totals.Total-d.Group.TotalLag)
	case "end":
		seek.Skipped = d.Group.TotalLag
	default:
		at, ok := parseInstant(seek.At)
		if !ok {
			seek.Error = "The instant cannot be read: write it like 2026-05-16T08:41:27Z."
			return seek, nil
		}
		seek.At, seek.Known = at.UTC().Format(time.RFC3339), false
		ops, err := source.Read[source.QueueOps](r.Ctx, r.Client, r.Caller,
			string(page.Link("/api/v1/analytics/queue-ops", "queue", d.Queue, "from", seek.At)))
		if err != nil {
			seek.Error = "What happened since then cannot be counted: " + err.Error()
			return seek, nil //nolint:nilerr // the page shows it
		}
		var pushed int64
		for i := range ops.Series {
			pushed += ops.Series[i].PushMessages
		}
		pushed = min(pushed, status.Totals.Total)
		seek.Again, seek.Skipped = max(0, pushed-d.Group.TotalLag), max(0, d.Group.TotalLag-pushed)
	}
	return seek, nil
}

// parseInstant reads an instant of a form or of a person. Without a zone it is in UTC.
func parseInstant(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
