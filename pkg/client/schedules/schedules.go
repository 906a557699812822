// Package schedules has the calls of the Go client about schedules. A program gets them from Client.Schedules:
//
//	set, err := c.Schedules().Set(ctx, "daily-report", client.SetSchedule{
//		Queue: "reports", Cron: "0 8 * * 1-5", Zone: "Europe/Rome", Payload: json.RawMessage(`{}`),
//	})
//
// An error is a *client.Error. If the schedule does not exist, the error matches client.ErrNotFound.
//
// The package imports only pkg/client/api. Programs import it for Filter.
package schedules

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

const path = "/api/v1/schedules"

// SendFunc sends a request and decodes the answer into the variable to which into points.
type SendFunc func(ctx context.Context, method, path string, query url.Values, body, into any) error

// Schedules sends requests about schedules. It is safe for concurrent use.
type Schedules struct{ send SendFunc }

// New returns Schedules that send their requests with a function.
func New(send SendFunc) Schedules { return Schedules{send} }

// Set creates a schedule, or replaces the schedule of this name. A schedule that is replaced stays paused if it was paused. If its
// instants are the same as before, no instant is lost or repeated. Set is repeated as Client.Do is, so Created may be false if the
// first attempt got no answer.
func (s Schedules) Set(ctx context.Context, name string, to api.SetSchedule) (set api.ScheduleSet, err error) {
	return set, s.send(ctx, http.MethodPut, pathOf(name), nil, to, &set)
}

// Preview returns what Set would return, and stores nothing. The schedule has its next ten instants.
func (s Schedules) Preview(ctx context.Context, name string, to api.SetSchedule) (set api.ScheduleSet, err error) {
	return set, s.send(ctx, http.MethodPut, pathOf(name), url.Values{"dryRun": {"true"}}, to, &set)
}

// Get returns a schedule with its state and its next ten instants.
func (s Schedules) Get(ctx context.Context, name string) (one api.Schedule, err error) {
	return one, s.send(ctx, http.MethodGet, pathOf(name), nil, nil, &one)
}

// Filter selects schedules.
type Filter struct {
	// Queue is the name of the queue. "" selects all queues.
	Queue string
	// Name is a part of the names, in any case. "" selects all names.
	Name string
	// PageSize is how many schedules one request asks for. 0 means 100.
	PageSize int
}

// List returns an iterator over schedules, in the order of their names:
//
//	for one, err := range c.Schedules().List(ctx, schedules.Filter{Queue: "reports"}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(one.Name, one.Sentence, one.NextAt)
//	}
//
// It asks for the next page when the loop needs it. After an error it ends.
func (s Schedules) List(ctx context.Context, f Filter) iter.Seq2[api.Schedule, error] {
	return func(yield func(api.Schedule, error) bool) {
		query := url.Values{}
		for name, value := range map[string]string{"queue": f.Queue, "name": f.Name} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if f.PageSize > 0 {
			query.Set("limit", strconv.Itoa(f.PageSize))
		}
		for {
			var page api.SchedulePage
			if err := s.send(ctx, http.MethodGet, path, query, nil, &page); err != nil {
				yield(api.Schedule{}, err)
				return
			}
			for i := range page.Schedules {
				if !yield(page.Schedules[i], nil) {
					return
				}
			}
			if page.Pagination.Next == nil {
				return
			}
			query.Set("cursor", *page.Pagination.Next)
		}
	}
}

// Delete deletes a schedule. Its stored messages stay.
func (s Schedules) Delete(ctx context.Context, name string) error {
	return s.send(ctx, http.MethodDelete, pathOf(name), nil, nil, nil)
}

// Pause stops the messages of a schedule. The reason may be "". It reports whether the schedule was not paused before.
func (s Schedules) Pause(ctx context.Context, name, reason string) (changed bool, err error) {
	var answer api.SchedulePaused
	err = s.send(ctx, http.MethodPost, pathOf(name)+"/pause", nil, api.Reason{Reason: reason}, &answer)
	return answer.Changed, err
}

// Resume starts the messages of a paused schedule again. It reports whether the schedule was paused.
func (s Schedules) Resume(ctx context.Context, name string) (changed bool, err error) {
	var answer api.SchedulePaused
	err = s.send(ctx, http.MethodPost, pathOf(name)+"/resume", nil, nil, &answer)
	return answer.Changed, err
}

// Run stores a message of a schedule at once, also if the schedule is paused. It returns the transaction id of the message.
func (s Schedules) Run(ctx context.Context, name string) (transactionID string, err error) {
	var answer api.ScheduleRun
	err = s.send(ctx, http.MethodPost, pathOf(name)+"/run", nil, nil, &answer)
	return answer.TransactionID, err
}

// Next returns the next n instants of a schedule that are not handled, at most 1,000. It returns fewer if fewer follow.
func (s Schedules) Next(ctx context.Context, name string, n int) ([]time.Time, error) {
	var answer api.ScheduleInstants
	err := s.send(ctx, http.MethodGet, pathOf(name)+"/next", url.Values{"n": {strconv.Itoa(n)}}, nil, &answer)
	return answer.Next, err
}

func pathOf(name string) string { return path + "/" + url.PathEscape(name) }
