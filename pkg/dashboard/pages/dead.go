package pages

import (
	"html/template"
	"slices"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// deadPage is how many dead letters one page lists.
const deadPage = "50"

type deadData struct {
	*source.DeadLetters
	// Queue, Group and Partition are the filters.
	Queue, Group, Partition string
	// Errors are the error texts of the page with their numbers.
	Errors []errorCount
	Next   template.URL
	Back   template.URL
}

type errorCount struct {
	Text  string
	Count int64
}

func deadLetters(r *page.Request) (*page.Content, error) {
	data := &deadData{Queue: r.Query.Get("q"), Group: r.Query.Get("g"), Partition: r.Query.Get("p")}
	path := string(page.Link("/api/v1/dlq", "queue", data.Queue, "consumerGroup", data.Group, "partition", data.Partition, "limit", deadPage, "cursor", r.Query.Get("after")))
	found, err := source.Read[source.DeadLetters](r.Ctx, r.Client, r.Caller, path)
	if err != nil {
		return nil, err
	}
	shown := *found
	shown.Messages = slices.Clone(found.Messages)
	for i := range shown.Messages {
		shown.Messages[i].ErrorMessage = page.ClipText(shown.Messages[i].ErrorMessage)
	}
	data.DeadLetters, found = &shown, &shown
	at := map[string]int{}
	for i := range found.Messages {
		text := found.Messages[i].ErrorMessage
		if _, seen := at[text]; !seen {
			at[text] = len(data.Errors)
			data.Errors = append(data.Errors, errorCount{Text: text})
		}
		data.Errors[at[text]].Count++
	}
	if next := found.Pagination.Next; next != nil {
		data.Next = page.Link("dead", "q", data.Queue, "g", data.Group, "p", data.Partition, "after", *next)
	}
	if r.Query.Has("after") {
		data.Back = page.Link("dead", "q", data.Queue, "g", data.Group, "p", data.Partition)
	}
	content := &page.Content{Title: "Dead letters", Data: data}
	list := []string{"dlq", "list"}
	if data.Queue != "" {
		list = append(list, "--queue", data.Queue)
	}
	content.Commands = append(content.Commands, r.Get("List the dead letters", string(page.Link("/api/v1/dlq", "queue", data.Queue, "consumerGroup", data.Group)), list...))
	if data.Queue != "" && data.Group != "" {
		content.Commands = append(content.Commands, r.Command("Redrive them", "POST", "/api/v1/dlq/redrive",
			`{"queue": `+page.Quoted(data.Queue)+`, "consumerGroup": `+page.Quoted(data.Group)+`, "all": true}`,
			append([]string{"dlq", "redrive", data.Queue, "--all"}, page.CLIGroup(data.Group)...)))
	}
	return content, nil
}
