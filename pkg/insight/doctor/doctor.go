package doctor

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
)

// runTimeout bounds all checks together. checkTimeout bounds one check.
const (
	runTimeout   = 60 * time.Second
	checkTimeout = 10 * time.Second
)

// Limits are bounds. A check reports a warning if a value exceeds its bound.
type Limits struct {
	// Transaction is how long a transaction may be open.
	Transaction time.Duration
	// Clock is how far the clocks of the program and the database may differ.
	Clock time.Duration
	// InboxAge is how long a committed row may wait in the inbox.
	InboxAge time.Duration
	// LateAfter is problems.late_after.
	LateAfter time.Duration
	// CompletedRows bounds the messages that a queue without retention keeps after every group has passed them.
	CompletedRows int64
	// ScheduleLate is how long a schedule may be due before an instance has stored its message.
	ScheduleLate time.Duration
}

// DefaultLimits returns the bounds that docs/runbook.md names.
func DefaultLimits() Limits {
	return Limits{Transaction: 5 * time.Minute, Clock: time.Second, InboxAge: time.Minute, LateAfter: time.Minute, CompletedRows: 100_000, ScheduleLate: 10 * time.Second}
}

// Config describes the database and the server that a Doctor examines.
type Config struct {
	// URL leads directly to Postgres. PoolURL is database.url, which may lead through a pooler.
	URL, PoolURL setting.Secret
	// PerInstance is how many connections an instance may take.
	PerInstance int64
	// Sealer has the encryption keys of the program.
	Sealer *seal.Sealer
	// Retention is retention.completed of the program.
	Retention time.Duration
	// Version is the version of the program.
	Version string
	// Process is the server, or nil.
	Process *Process
	// NoServer says why Process is nil. ServerWanted is true if the user named a server.
	NoServer     string
	ServerWanted bool
	// Now is the clock of the program.
	Now    func() time.Time
	Limits Limits
}

// Doctor runs the checks. It is safe for concurrent use, because each run opens a connection.
type Doctor struct{ cfg Config }

// New returns a Doctor.
func New(cfg Config) *Doctor { return &Doctor{cfg: cfg} }

// check is one check. run may use the session of the exam.
type check struct {
	code, why string
	run       func(ctx context.Context, e *exam) outcome
}

// checks are all checks, in the order of the report.
var checks = [][]check{databaseChecks, sessionChecks, storageChecks, queueChecks, scheduleChecks, processChecks}

// Codes returns the codes of all checks.
func Codes() (codes []string) {
	for _, some := range checks {
		for _, c := range some {
			codes = append(codes, c.code)
		}
	}
	return codes
}

// Run runs all checks. It blocks for at most runTimeout. If ctx ends, the remaining checks are Unknown.
func (d *Doctor) Run(ctx context.Context) api.Examination {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	e := &exam{Config: d.cfg}
	defer e.close(ctx)
	e.read(ctx)
	report := api.Examination{At: d.cfg.Now().UTC(), Version: d.cfg.Version, Healthy: true, Checks: []api.Finding{}}
	for _, some := range checks {
		for _, c := range some {
			add(&report, c.examine(ctx, e))
		}
	}
	return report
}

// examine runs the check with its time limit.
func (c check) examine(ctx context.Context, e *exam) api.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	o := c.run(ctx, e)
	if o.do == nil {
		o.do = []string{}
	}
	return api.Finding{Code: c.code, Result: o.result, Found: o.found, Why: c.why, Do: o.do, Runbook: Runbook + "#" + c.code}
}
