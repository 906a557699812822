package schedules

import (
	"context"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/schedule"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// shownInstants is how many instants an answer has by default, and mostInstants the largest number.
	shownInstants, mostInstants = 10, 1000
	// shownSchedules is how many schedules a page has by default, and mostSchedules the largest number.
	shownSchedules, mostSchedules = 100, 1000
	// maxName is the greatest number of bytes of the name of a schedule, and maxReason the greatest number of characters of a reason.
	maxName, maxReason = 200, 1000
)

// Store reads and changes schedules. *schedule.Store implements it.
type Store interface {
	Set(ctx context.Context, d *schedule.Definition, dryRun bool, checks ...schedule.Check) (set *schedule.Schedule, created bool, err error)
	Get(ctx context.Context, name string) (*schedule.Schedule, error)
	List(ctx context.Context, f schedule.Filter) (page []schedule.Schedule, next string, err error)
	Delete(ctx context.Context, name string, checks ...schedule.Check) error
	SetPaused(ctx context.Context, name string, paused bool, reason string, checks ...schedule.Check) (changed bool, err error)
	RunNow(ctx context.Context, name string, checks ...schedule.Check) (transactionID string, err error)
}

// Handlers has one method for each route.
type Handlers struct {
	Store    Store
	Messages Messages
	Bodies   wire.BodyReader
}

// pathName returns the name of the schedule in the path.
func pathName(p *wire.Params) string {
	name := p.PathText("name")
	if len(name) > maxName {
		p.Check(queue.Invalidf("the name in the path has %d bytes: a schedule has a name of at most %d", len(name), maxName))
	}
	return name
}

// found returns the check for a schedule that exists. It completes the row of the audit with the queue. If the caller may not read
// the queue, the error is hidden.
func found(p *wire.Params, hidden error) schedule.Check {
	return func(queueName string) error {
		if !identity.GrantsOf(p.Ctx()).MayRead(queueName) {
			return hidden
		}
		audit.Locate(p.Ctx(), queueName, "")
		return wire.MayAdminister(p.Ctx(), queueName)
	}
}

// Set serves PUT /api/v1/schedules/:name.
func (h *Handlers) Set(p *wire.Params) (any, error) {
	d := &schedule.Definition{Name: pathName(p)}
	if p.Err != nil {
		return nil, p.Err
	}
	if err := h.readDefinition(p, d); err != nil {
		return nil, err
	}
	if err := wire.MayAdminister(p.Ctx(), d.Queue); err != nil {
		return nil, err
	}
	dryRun := wire.IsTrue(p.QueryParam("dryRun"))
	parameters := parametersOf(d)
	if !dryRun {
		audit.Begin(p.Ctx(), audit.Target{Queue: d.Queue, Partition: d.Partition}, parameters)
	}
	set, created, err := h.Store.Set(p.Ctx(), d, dryRun, func(queueName string) error {
		if !identity.GrantsOf(p.Ctx()).MayAdminister(queueName) {
			return &queue.Error{Code: queue.CodeForbidden, Message: "Insufficient permissions: another queue has a schedule of this name, and the token may not change it: choose another name"}
		}
		if !dryRun && queueName != d.Queue {
			parameters["fromQueue"] = queueName
			audit.Begin(p.Ctx(), audit.Target{Queue: d.Queue, Partition: d.Partition}, parameters)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return api.ScheduleSet{Success: true, Created: created, DryRun: dryRun, Schedule: detailed(set)}, nil
}

// Get serves GET /api/v1/schedules/:name.
func (h *Handlers) Get(p *wire.Params) (any, error) {
	one, err := h.read(p)
	if err != nil {
		return nil, err
	}
	list := []api.Schedule{detailed(one)}
	err = h.addMessages(p.Ctx(), list)
	return list[0], err
}

// read returns the schedule in the path, if the caller may read it.
func (h *Handlers) read(p *wire.Params) (*schedule.Schedule, error) {
	name := pathName(p)
	if p.Err != nil {
		return nil, p.Err
	}
	one, err := h.Store.Get(p.Ctx(), name)
	if err == nil && !identity.GrantsOf(p.Ctx()).MayRead(one.Queue) {
		err = schedule.ErrNoSchedule
	}
	return one, err
}

// Next serves GET /api/v1/schedules/:name/next.
func (h *Handlers) Next(p *wire.Params) (any, error) {
	one, err := h.read(p)
	if err != nil {
		return nil, err
	}
	next, err := one.Next(wire.Clamp(1, wire.LeadingInt(p.QueryParam("n"), shownInstants), mostInstants))
	return api.ScheduleInstants{Name: one.Name, Sentence: sentence(&one.Spec), Zone: one.Spec.Zone, Next: orEmpty(next)}, err
}

// List serves GET /api/v1/schedules.
func (h *Handlers) List(p *wire.Params) (any, error) {
	f := schedule.Filter{
		Queue: p.Text("queue"), Part: p.Text("name"), After: p.Text("cursor"), Allowed: identity.GrantsOf(p.Ctx()).Readable(),
		Limit: wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), shownSchedules), mostSchedules),
	}
	if f.Queue != "" {
		p.Check(wire.MayRead(p.Ctx(), f.Queue))
	}
	if p.Err != nil {
		return nil, p.Err
	}
	page, next, err := h.Store.List(p.Ctx(), f)
	if err != nil {
		return nil, err
	}
	all := wire.Each(page, listed)
	err = h.addMessages(p.Ctx(), all)
	return api.SchedulePage{Schedules: all, Pagination: api.Page{Limit: int64(f.Limit), Next: wire.OrNull(next)}}, err
}

// Delete serves DELETE /api/v1/schedules/:name.
func (h *Handlers) Delete(p *wire.Params) (any, error) {
	name, err := begin(p, nil)
	if err != nil {
		return nil, err
	}
	return api.DeletedSchedule{Deleted: true, Name: name}, h.Store.Delete(p.Ctx(), name, found(p, schedule.ErrNoSchedule))
}

// Run serves POST /api/v1/schedules/:name/run.
func (h *Handlers) Run(p *wire.Params) (any, error) {
	name, err := begin(p, nil)
	if err != nil {
		return nil, err
	}
	target, check := "", found(p, schedule.ErrNoSchedule)
	id, err := h.Store.RunNow(p.Ctx(), name, func(queueName string) error {
		target = queueName
		return check(queueName)
	})
	return api.ScheduleRun{Success: true, Name: name, Queue: target, TransactionID: id}, err
}

// Pause returns the handler of POST /api/v1/schedules/:name/pause if paused is true, and otherwise of .../resume.
func (h *Handlers) Pause(paused bool) func(p *wire.Params) (any, error) {
	return func(p *wire.Params) (any, error) {
		parameters, reason := audit.Parameters{}, ""
		err := h.Bodies.ReadOptionalObject(p, func(member string, value jsontext.Value) (err error) {
			if member != "reason" || value.Kind() == 'n' {
				return nil
			}
			reason, err = readReason(value)
			parameters["reason"] = reason
			return err
		})
		if err != nil {
			return nil, err
		}
		name, err := begin(p, parameters)
		if err != nil {
			return nil, err
		}
		changed, err := h.Store.SetPaused(p.Ctx(), name, paused, reason, found(p, schedule.ErrNoSchedule))
		return api.SchedulePaused{Success: true, Name: name, Paused: paused, Changed: changed}, err
	}
}

// begin reads the name in the path, and begins the row of the audit.
func begin(p *wire.Params, parameters audit.Parameters) (name string, err error) {
	if name = pathName(p); p.Err != nil {
		return "", p.Err
	}
	if parameters == nil {
		parameters = audit.Parameters{}
	}
	parameters["schedule"] = name
	audit.Begin(p.Ctx(), audit.Target{}, parameters)
	return name, nil
}

func readReason(value jsontext.Value) (string, error) {
	reason, ok := wire.Text(value)
	switch n := utf8.RuneCountInString(reason); {
	case !ok:
		return "", queue.Invalidf("reason must be a string")
	case n > maxReason:
		return "", queue.Invalidf("reason has %d characters: it must have at most %d", n, maxReason)
	case reason != wire.ReplaceNUL(reason):
		return "", queue.Invalidf("reason contains the character NUL")
	}
	return reason, nil
}
