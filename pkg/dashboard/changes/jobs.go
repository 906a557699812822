package changes

import (
	"net/http"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// jobs lists the redrive jobs.
func jobs(r *page.Request) (*page.Content, error) {
	found, err := source.Read[api.RedriveJobs](r.Ctx, r.Client, r.Caller, "/api/v1/dlq/jobs")
	if err != nil {
		return nil, err
	}
	commands := []page.Command{r.Get("List the redrive jobs", "/api/v1/dlq/jobs", "dlq", "jobs")}
	for i := range found.Jobs {
		if j := &found.Jobs[i]; j.State == "running" {
			path := "/api/v1/dlq/jobs/" + page.Esc(j.ID) + "/stop"
			commands = append(commands, r.Command("Stop the redrive of "+j.Queue, http.MethodPost, path, "", []string{"dlq", "stop-job", j.ID}))
			break
		}
	}
	return &page.Content{Title: "Redrive jobs", Data: found, Commands: commands}, nil
}
