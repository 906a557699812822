package changes

import (
	"errors"
	"net/http"
	"strings"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// Refused returns why the server would refuse the settings of a queue, by the name of the setting. body is a body of
// POST /api/v1/configure. A reason without a name is about the queue. Refused ignores failures that are no fault of the settings.
func Refused(r *page.Request, body map[string]any) map[string]string {
	reasons := map[string]string{}
	try := func(name string, body map[string]any) bool {
		var answer *source.Error
		err := r.Client.Try(r.Ctx, r.Caller, "/api/v1/configure?dryRun=true", body)
		if !errors.As(err, &answer) || answer.Status != http.StatusBadRequest {
			return false
		}
		reasons[name] = answer.Text
		return true
	}
	if !try("", body) {
		return reasons
	}
	text := reasons[""] // each setting alone, so that each field has its own reason
	options, _ := body["options"].(map[string]any)
	for name, value := range options {
		try(name, map[string]any{"queue": body["queue"], "options": map[string]any{name: value}})
	}
	for _, name := range []string{"namespace", "task"} {
		try(name, map[string]any{"queue": body["queue"], name: body[name]})
	}
	if len(reasons) > 1 || strings.HasPrefix(text, "options.") {
		delete(reasons, "")
	}
	return reasons
}
