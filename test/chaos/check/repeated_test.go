package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
)

// If the answer to a claim is lost, the server claims again. With autoAck, the first claim has already consumed
// messages.
func TestAutoAckClaimsRepeatOnlyDuringAFault(t *testing.T) {
	t.Parallel()
	twice := func(r *run) {
		r.op(5).AutoAck, r.op(5).LeaseID, r.op(5).Items = true, "", delivered("d")
		r.drop(6)
		r.drop(7)
		r.drop(8)
		r.cursor().Dead = nil
	}
	during := check.FaultWindow{Begin: 7500 * time.Millisecond, End: 8500 * time.Millisecond, Allowance: time.Second}
	runBreaches(t, []breach{
		{
			"without a fault", "skipped delivered", `the delivery starts with "d" at 4, but "c" at 3`, 5, twice,
			func(r *run) { r.options.Windows = []check.FaultWindow{during} },
		},
		{
			"the fault was over before the pop", "skipped delivered", `the delivery starts with "d" at 4, but "c" at 3`, 5,
			func(r *run) {
				twice(r)
				r.options.Windows = []check.FaultWindow{{Begin: 7 * time.Second, End: 7900 * time.Millisecond, Allowance: time.Second}}
			},
			func(r *run) { r.options.Windows[0].End = 8 * time.Second },
		},
		{
			"the fault breaks no connection of a server", "delivered skipped", `"c" at 3 is before the cursor, at 4, but was never delivered`, 1,
			after(twice, func(r *run) { r.options.Windows = []check.FaultWindow{{Begin: during.Begin, End: during.End}} }),
			func(r *run) { r.options.Windows[0].Allowance = time.Second },
		},
		{
			"a repeated claim with a lease consumes no message", "skipped delivered", `the delivery starts with "d" at 4, but "c" at 3`, 5,
			func(r *run) {
				twice(r)
				r.op(5).AutoAck, r.op(5).LeaseID = false, "L2"
				r.options.Windows = []check.FaultWindow{during}
			},
			func(r *run) { r.op(5).AutoAck, r.op(5).LeaseID = true, "" },
		},
	})
}
