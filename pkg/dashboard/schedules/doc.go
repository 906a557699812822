// Package schedules has the pages of schedules: the list, the page of one schedule, and the form with a preview of its instants.
// Only pkg/dashboard and its packages may import this package.
package schedules

import "github.com/belfry-mq/belfry/pkg/dashboard/page"

// Form is the path of the page with the form. A POST to it shows the preview.
const Form = "schedule-edit"

// Pages returns the pages.
func Pages() []*page.Page {
	return []*page.Page{
		{Path: "schedules", Under: "queues", Template: "schedules", Load: list},
		{Path: "schedule", Under: "queues", Payloads: true, Template: "schedule", Load: one},
		{Path: Form, Under: "queues", Payloads: true, Template: "schedule-edit", Load: edit},
	}
}
