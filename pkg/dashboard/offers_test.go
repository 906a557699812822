package dashboard_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/dashboard"
)

// Maintenance stops all messages, so the overview shows it before other problems.
func TestMaintenanceIsTheFirstProblem(t *testing.T) {
	t.Parallel()
	switches := map[string]any{"maintenanceMode": true, "popMaintenanceMode": true}
	s := startOn(t, answers{
		"/api/v1/system/maintenance": switches,
		"/api/v1/status/dispatcher":  map[string]any{"listener": map[string]any{"state": "deaf"}},
	})
	require.Regexp(t, `(?s)Pushes are kept on the disks.*No consumer receives a message\..*<strong><bdi>deaf`, s.send(t, http.MethodGet, "/ui/", "").Body.String())
	switches["maintenanceMode"], switches["popMaintenanceMode"] = false, false
	page := startOn(t, answers{"/api/v1/system/maintenance": switches}).send(t, http.MethodGet, "/ui/", "").Body.String()
	require.NotContains(t, page, "Pushes are kept")
	require.NotContains(t, page, "No consumer receives a message")
}

// The commands on a page contain the filters of the page.
func TestCommandsHaveTheFiltersOfTheirPage(t *testing.T) {
	t.Parallel()
	s := startOn(t, answers{"/api/v1/analytics/queue-lag": []any{}})
	for path, command := range map[string]string{
		"/ui/history?q=a&g=g":                       " --queue a --group g",
		"/ui/messages?q=a&p=p&status=pending":       "belfry messages list --queue a --partition p --status pending",
		"/ui/audit?action=queue.delete&subject=ann": "belfry audit --action queue.delete --subject ann",
	} {
		require.Contains(t, s.send(t, http.MethodGet, path, "").Body.String(), command, path)
	}
}

// A caller with grants gets no links to pages that only show figures of all queues.
func TestGrantsHidePagesOfAllQueues(t *testing.T) {
	t.Parallel()
	granted := &identity.Principal{Subject: "cid", Role: identity.ReadWrite, Grants: &identity.Grants{Read: []string{"a"}}}
	s := start(t, dashboard.DefaultConfig(), tokens{"all": admin, "some": granted})
	for token, offered := range map[string]bool{"all": true, "some": false} {
		page := s.send(t, http.MethodGet, "/ui/queues", "", with(token)).Body.String()
		require.Contains(t, page, `href="messages"`, token)
		if offered {
			require.Contains(t, page, `href="dispatcher"`)
		} else {
			require.NotContains(t, page, `href="dispatcher"`)
		}
	}
}

// If grants may hide queues, an empty page says that the token may see no queue, not that there is no queue.
func TestAnEmptyPageMentionsTheToken(t *testing.T) {
	t.Parallel()
	granted := &identity.Principal{Subject: "cid", Role: identity.ReadWrite, Grants: &identity.Grants{Read: []string{"a"}}}
	s := start(t, dashboard.DefaultConfig(), tokens{"all": admin, "some": granted})
	for _, path := range []string{"/ui/queues", "/ui/"} {
		for token, want := range map[string]string{"all": "There is no queue yet", "some": "There is no queue that your token may see"} {
			page := s.send(t, http.MethodGet, path, "", with(token)).Body.String()
			require.Contains(t, page, want, path)
			require.Contains(t, page, "/api/v1/push</code>", path)
			if token == "some" {
				require.NotContains(t, page, "There is no queue yet", path)
			}
		}
	}
}
