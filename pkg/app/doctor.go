package app

import (
	"time"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
)

// spareConnections are the connections of an instance beyond its pools: the listener, the sender, the
// health check, the sleeping sequencer, and a short one of migrations and checks.
const spareConnections = 5

// DoctorConfig returns what a doctor examines with these settings, without a server.
func DoctorConfig(cfg config.Config, sealer *seal.Sealer) doctor.Config {
	perInstance := int64(cfg.Database.PoolSize) + inbox.Connections + spareConnections
	if cfg.Dispatch.UsePriorityDispatch {
		perInstance += int64(min(cfg.Dispatch.PollWorkers+1, maxUrgentConnections))
	}
	return doctor.Config{
		URL: cfg.Database.DirectURL(), PoolURL: cfg.Database.URL, PerInstance: perInstance, Sealer: sealer,
		Retention: cfg.Retention.Completed, Version: Version(), Now: time.Now, Limits: doctor.DefaultLimits(),
	}
}

// doctor returns what examines the database and this server.
func (b builder) doctor(sealer *seal.Sealer, pushes *spool.Spool) *doctor.Doctor {
	examined := DoctorConfig(b.cfg, sealer)
	listener := b.listener
	examined.Process = &doctor.Process{
		Listener: func() (string, time.Duration) {
			state, proof := listener.State()
			return string(state), proof
		},
		SpoolDir: b.cfg.Spool.Dir, SpoolHealthy: pushes.Healthy,
		Authenticated: authenticated(b.cfg),
		Addr:          b.addr,
	}
	return doctor.New(examined)
}
