package pages

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

const (
	// messagesShown is how many messages the list shows at once.
	messagesShown = 50
	// A search by transaction id or trace has no index. It reads at most scanPages pages of scanPage messages. Then the
	// page has a link to continue.
	scanPage, scanPages = 1000, 5
	// partitionsRead is how many partitions one page of the list covers.
	partitionsRead = "500"
)

// since are the choices for the maximum age of the listed messages.
var since = page.Choices("1h", "last hour", "1d", "last day", "7d", "last 7 days", "all", "all")

// spans are the durations of the choices, by their values.
var spans = map[string]time.Duration{"1h": time.Hour, "6h": 6 * time.Hour, "1d": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

type messagesData struct {
	Queue, Partition, Transaction, Trace, Status, Since, Until string
	Choices                                                    []page.Choice
	Statuses                                                   []string
	Messages                                                   []api.ListedMessage
	// Scanned is how many messages a search has read. Back is the instant of the last one.
	Searching bool
	Scanned   int
	Back      time.Time
	Next      template.URL
	First     template.URL
	// Part is true if the list covers only some partitions. Next then leads to the other partitions.
	Part  bool
	Error string
	// from and until are the bounds of the filters in the format of the API.
	from, until string
}

// messages lists the newest messages that match, or searches for one.
func messages(r *page.Request) (*page.Content, error) {
	q := r.Query
	d := &messagesData{
		Queue: q.Get("q"), Partition: q.Get("p"), Transaction: strings.TrimSpace(q.Get("t")), Trace: strings.TrimSpace(q.Get("trace")), Status: q.Get("status"), Since: q.Get("since"), Until: q.Get("until"),
		Choices: since, Statuses: []string{"pending", "processing", "completed", "dead_letter"},
	}
	d.Searching = d.Transaction != "" || d.Trace != ""
	if d.Since == "" {
		d.Since = "1h"
		if d.Searching {
			d.Since = "all"
		}
	}
	path := d.path(r)
	if d.Error == "" {
		if err := d.read(r, path, q.Get("after"), q.Get("in")); err != nil {
			return nil, err
		}
	}
	if q.Has("after") || q.Has("in") {
		d.First = d.link("", "")
	}
	list := page.Flags([]string{"messages", "list"}, "--queue", d.Queue, "--partition", d.Partition, "--status", d.Status, "--from", d.from, "--to", d.until)
	return &page.Content{Title: "Messages", Data: d, Commands: []page.Command{r.Get("List the messages", path, list...)}}, nil
}

// path returns the API path for the filters. For an invalid filter it sets Error.
func (d *messagesData) path(r *page.Request) string {
	from, until, latest := "1970-01-01T00:00:00Z", "", r.Now
	if d.Until != "" {
		at, ok := page.ParseInstant(d.Until)
		if !ok {
			d.Error = "The instant cannot be read: write it like 2026-05-16T08:41:27Z."
			return ""
		}
		until, latest = at.UTC().Format(time.RFC3339), at
	}
	if span := spans[d.Since]; span > 0 {
		from = latest.Add(-span).Truncate(time.Minute).UTC().Format(time.RFC3339)
	}
	limit := messagesShown
	if d.Searching {
		limit = scanPage
	}
	d.from, d.until = from, until
	window := partitionsRead
	if d.Queue != "" && d.Partition != "" {
		window = ""
	}
	return string(page.Link("/api/v1/messages", "queue", d.Queue, "partition", d.Partition, "status", d.Status, "from", from, "to", until, "limit", strconv.Itoa(limit), "partitions", window))
}

// read reads pages of the list until it has messages to show, the list ends, or it has read scanPages pages.
func (d *messagesData) read(r *page.Request, path, cursor, partitions string) error {
	d.Part = partitions != ""
	for range scanPages {
		at := path
		for _, more := range [][2]string{{"cursor", cursor}, {"partitionsAfter", partitions}} {
			if more[1] != "" {
				at += "&" + more[0] + "=" + url.QueryEscape(more[1])
			}
		}
		found, err := source.Read[api.Messages](r.Ctx, r.Client, r.Caller, at)
		if source.IsStatus(err, http.StatusBadRequest) {
			d.Error = "The filters are invalid: " + err.Error() + "."
			return nil
		}
		if err != nil {
			return err
		}
		d.Scanned += len(found.Messages)
		for i := range found.Messages {
			d.Back = found.Messages[i].CreatedAt
			if d.matches(&found.Messages[i]) {
				d.Messages = append(d.Messages, found.Messages[i])
			}
		}
		d.Part = d.Part || found.Pagination.NextPartitions != ""
		if cursor = page.Optional(found.Pagination.Next); cursor == "" {
			if partitions = found.Pagination.NextPartitions; partitions == "" {
				return nil
			}
		}
		if !d.Searching && len(found.Messages) > 0 || len(d.Messages) > 0 {
			break
		}
	}
	d.Next = d.link(cursor, partitions)
	return nil
}

func (d *messagesData) matches(m *api.ListedMessage) bool {
	return (d.Transaction == "" || m.TransactionID == d.Transaction) && (d.Trace == "" || page.Optional(m.TraceID) == d.Trace)
}

// link returns the URL of the page that starts at a cursor and at a position in the partitions.
func (d *messagesData) link(cursor, partitions string) template.URL {
	return page.Link("messages", "q", d.Queue, "p", d.Partition, "t", d.Transaction, "trace", d.Trace, "status", d.Status, "since", d.Since, "until", d.Until, "after", cursor, "in", partitions)
}
