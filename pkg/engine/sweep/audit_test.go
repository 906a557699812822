package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Rows of the audit are deleted in batches when they are older than audit.retention. With 0 the job does not run.
func TestOldRowsOfTheAuditAreDeleted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(c *Config) { c.AuditRetention = 90 * 24 * time.Hour })
	r.exec(`INSERT INTO belfry.audit (id, at, address, request_id, action, parameters, counts, result)
		SELECT gen_random_uuid(), now() - interval '90 days' + i * interval '1 hour', '', '', 'queue.delete', '{}', '{}', 'ok'
		  FROM generate_series(-2499, 3) i`)
	r.sweep(r.audit())
	require.EqualValues(t, 3, r.number("SELECT count(*) FROM belfry.audit WHERE at > now() - interval '90 days'"))
	require.EqualValues(t, 3, r.number("SELECT count(*) FROM belfry.audit"))

	jobs := func(retention time.Duration) (names []string) {
		r.cfg.AuditRetention = retention
		for _, j := range r.jobs() {
			names = append(names, j.name)
		}
		return names
	}
	require.Contains(t, jobs(time.Hour), jobAudit)
	require.NotContains(t, jobs(0), jobAudit)
}
