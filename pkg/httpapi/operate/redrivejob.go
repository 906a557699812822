package operate

import (
	"net/http"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/redrivejob"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// listedJobs is how many jobs a list has.
const listedJobs = 100

// ListRedriveJobs serves GET /api/v1/dlq/jobs. Queen MQ does not have it.
func (h *Handlers) ListRedriveJobs(p *wire.Params) (any, error) {
	jobs, err := h.Jobs.List(p.Ctx(), identity.GrantsOf(p.Ctx()).Readable(), listedJobs)
	return api.RedriveJobs{Jobs: wire.Each(jobs, redriveJob)}, err
}

// StartRedriveJob serves POST /api/v1/dlq/jobs. Queen MQ does not have it.
func (h *Handlers) StartRedriveJob(p *wire.Params) (any, error) {
	r, err := h.readRedrive(p)
	switch {
	case err != nil:
		return nil, err
	case r.toQueue != nil:
		return nil, queue.Invalidf("toQueue is not possible in a job: use POST /api/v1/dlq/redrive")
	case r.dryRun:
		return nil, queue.Invalidf("dryRun is not possible in a job: use POST /api/v1/dlq/redrive")
	}
	r.begin(p)
	job, err := h.Jobs.Start(p.Ctx(), r.Filter, r.rate)
	if err != nil {
		return nil, err
	}
	p.Status = http.StatusAccepted
	return redriveJob(&job), nil
}

// StopRedriveJob serves POST /api/v1/dlq/jobs/:id/stop. Queen MQ does not have it.
func (h *Handlers) StopRedriveJob(p *wire.Params) (any, error) {
	id, err := queue.ParseID(p.Param("id"))
	if err != nil {
		return nil, queue.Invalidf("id must be the id of a job of GET /api/v1/dlq/jobs, not %s", wire.Clip(p.Param("id")))
	}
	job, err := h.Jobs.Get(p.Ctx(), id)
	if err != nil {
		return nil, err
	}
	if wire.MayRead(p.Ctx(), *job.Filter.Queue) != nil {
		return nil, redrivejob.ErrNoJob // as if it did not exist
	}
	if err := wire.MayConsume(p.Ctx(), *job.Filter.Queue, *job.Filter.Group); err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: *job.Filter.Queue, Group: *job.Filter.Group}, audit.Parameters{"job": id.String()})
	if err := h.Jobs.Stop(p.Ctx(), id); err != nil {
		return nil, err
	}
	job, err = h.Jobs.Get(p.Ctx(), id)
	return redriveJob(&job), err
}

func redriveJob(j *redrivejob.Job) api.RedriveJob {
	f := &j.Filter
	return api.RedriveJob{
		ID: j.ID.String(), Queue: *f.Queue, Group: *f.Group, Partition: f.Partition, TransactionID: f.TransactionID, Error: f.Error,
		From: wire.OrNull(f.From), To: f.To, Rate: wire.OrNull(j.Rate), Matched: j.Matched, Redriven: j.Redriven,
		State: j.State, Failure: wire.OrNull(j.Failure), Subject: wire.OrNull(j.Subject), Instance: wire.OrNull(j.Instance),
		CreatedAt: j.CreatedAt, EndedAt: wire.OrNull(j.EndedAt),
	}
}
