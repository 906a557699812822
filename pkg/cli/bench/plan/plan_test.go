package plan

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

func TestCostsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	for _, costs := range [][]perMessage{pushCosts, popCosts} {
		for _, c := range costs {
			got := at(costs, c.batch)
			require.InDelta(t, c.postgres, got.postgres, 1e-9)
			require.InDelta(t, c.server, got.server, 1e-9)
			require.InDelta(t, c.wal, got.wal, 1e-9)
			require.InDelta(t, c.syncs, got.syncs, 1e-9)
		}
		before := at(costs, 1)
		for batch := 2.0; batch <= 1000; batch++ {
			c := at(costs, batch)
			require.LessOrEqual(t, c.postgres, before.postgres, batch)
			require.LessOrEqual(t, c.wal, before.wal, batch)
			before = c
		}
		require.InDelta(t, costs[len(costs)-1].postgres, at(costs, 5000).postgres, 0)
	}
}

// One call at a time must cost what was measured alone, and very many calls what was measured together.
func TestCallsThatShareCommitsCostLess(t *testing.T) {
	t.Parallel()
	require.InDelta(t, alonePush.postgres, costAt(pushCosts, alonePush, 1, 0).postgres, 1e-9)
	require.InDelta(t, alonePush.postgres, costAt(pushCosts, alonePush, 1, 1).postgres, 2)
	require.InDelta(t, pushCosts[0].postgres, costAt(pushCosts, alonePush, 1, 1e9).postgres, 0.01)
	require.InDelta(t, alonePush.syncs, costAt(pushCosts, alonePush, 1, 1e-9).syncs, 1e-6)
}

func TestTheNeedsOfALoad(t *testing.T) {
	t.Parallel()
	in := Input{Rate: 1e6, Payload: 100, Batch: 100, Groups: 2, Partitions: 10, Retention: time.Second, Instances: 2, Utilization: 50, Waiting: 1000}
	n := Compute(in)
	push, pop := pushCosts[2], popCosts[2]
	require.InEpsilon(t, push.postgres+2*pop.postgres, n.PostgresPerMessage, 0.15)
	require.InEpsilon(t, 1e6*(push.wal+2*pop.wal), n.WALBytesPerSecond, 0.01)
	require.InEpsilon(t, 1e6*diskBytes+10*(partitionBytes+2*cursorBytes), n.StoredBytes, 1e-9)
	require.Equal(t, int(math.Ceil(n.PostgresCPU*2)), n.PostgresCores)
	require.InDelta(t, 1000*waitingBytes, n.WaitingBytes, 0)
	require.InDelta(t, serverBytes+inFlightBytes+500*waitingBytes, n.InstanceBytes, 0)
	require.Equal(t, 60, n.Connections)
	in.PopBatch = 1
	require.Greater(t, Compute(in).PostgresCPU, n.PostgresCPU)
}

func TestAMachineIsAsBusyAsItMayBe(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 10, 1000} {
		in := Defaults()
		in.Batch = batch
		before := 0.0
		for _, m := range Machines(in) {
			require.InEpsilon(t, float64(m.Cores)/2, m.PostgresCPU+m.ServerCPU, 0.001)
			require.Greater(t, m.Rate, before)
			before = m.Rate
		}
	}
}

func TestInvalidNumbersAreRefused(t *testing.T) {
	t.Parallel()
	require.NoError(t, Defaults().Validate())
	err := Input{Retention: -1}.Validate()
	for _, flag := range []string{"rate", "batch", "partitions", "instances", "utilization", "retention"} {
		require.ErrorContains(t, err, "--"+flag+" is ")
	}
}

// The constants about settings must follow the settings.
func TestConstantsFollowTheSettings(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	require.Equal(t, connectionsOfInstance, int(cfg.Database.PoolSize)+cfg.Dispatch.PollWorkers+8)
	require.EqualValues(t, inFlightBytes, cfg.HTTP.MaxInflightBytes)
	compose, err := os.ReadFile("../../../../docker-compose.yml")
	require.NoError(t, err)
	require.Contains(t, string(compose), "max_wal_size=8GB")
}

func TestThePlanForPeople(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	require.NoError(t, NewReport(Defaults()).WriteTable(&text))
	require.Contains(t, text.String(), "costs measured")
	require.Equal(t, 5, strings.Count(text.String(), "calculated\n"), "a line for each machine")
	for v, want := range map[float64]string{0: "0", 7.4: "7", 99.6: "100", 123: "120", 1250: "1,300", 12_345_678: "12,000,000"} {
		require.Equal(t, want, figure(v))
	}
}
