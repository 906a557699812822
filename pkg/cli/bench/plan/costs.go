package plan

import "math"

// The constants of this file were measured on two cores of a virtual machine that other programs used too, with Postgres
// 15 and the settings of docker-compose.yml. They are medians of three runs of
//
//	taskset -c 0,1 go run ./test/bench/costs
//
// The rows are 100-byte messages over 100 partitions. A row has the processor time of all processes of Postgres,
// with vacuum and checkpoints. docs/sizing.md has all rows, also of one core.

// perMessage is what a message costs at a batch size, while many calls are in flight.
type perMessage struct {
	batch            float64
	postgres, server float64 // microseconds of a core
	wal              float64 // bytes
	syncs            float64 // syncs of the WAL for each call
}

var (
	pushCosts = []perMessage{
		{1, 71.3, 78.0, 666, 0.06}, {10, 24.8, 18.0, 509, 0.12}, {100, 11.9, 7.8, 492, 0.39}, {1000, 6.4, 4.6, 489, 0.95},
	}
	// popCosts are for a pop and its ack, of one group.
	popCosts = []perMessage{
		{1, 203.3, 167.3, 774, 0.08}, {10, 45.2, 35.2, 79, 0.17}, {100, 13.5, 11.1, 8, 0.56}, {1000, 3.2, 5.6, 1, 0.98},
	}
	// alonePush and alonePop are for one call at a time, with one message. No other call shares its commit.
	alonePush = perMessage{1, 686.7, 386.7, 751, 1.01}
	alonePop  = perMessage{1, 886.7, 680.0, 845, 1.02}
)

const (
	// measuredPayload is the payload of the measured messages, in bytes.
	measuredPayload = 100
	// diskBytes is the size of a message with measuredPayload in the table and its indexes.
	diskBytes = 377
	// diskPerByte, walPerByte and the next two are what a further byte of payload adds. They are the difference of the
	// rows with 1,100 and with 100 bytes.
	diskPerByte         = 1.14
	walPerByte          = 1.00
	postgresPushPerByte = 0.0103 // microseconds
	serverPushPerByte   = 0.0074
	postgresPopPerByte  = 0.0039
	serverPopPerByte    = 0.0033
	// partitionBytes and cursorBytes are on disk. A cursor is a group in a partition.
	partitionBytes, cursorBytes = 775, 289
	// waitingBytes is the memory of a waiting request. It was 20 to 26 KiB here, and up to 36 KiB in docs/performance.md.
	waitingBytes = 36 << 10
	// serverBytes is the memory of a server without requests, and inFlightBytes the default of
	// http.max_inflight_bytes.
	serverBytes, inFlightBytes = 56 << 20, 256 << 20
	// The bytes of the bodies of requests and answers around each payload.
	pushSent, pushReceived, popSent, popReceived = 47, 229, 180, 515
	// connectionsOfInstance is database.pool_size + dispatch.poll_workers + 8, with the defaults.
	connectionsOfInstance = 30
)

// The constants below are rules and not measurements.
const (
	// aloneCalls is the number of calls per second at which the calls of one instance share commits. A push and the
	// delivery to a waiting consumer take about two milliseconds (docs/performance.md).
	aloneCalls = 500
	// spare is the factor for old row versions, and walDisk is max_wal_size of docker-compose.yml in bytes.
	spare, walDisk = 1.5, 8 << 30
)

// at returns the costs of a message at a batch size. Between two measured sizes it interpolates the logarithms. Above the
// largest size it uses the costs of the largest size.
func at(costs []perMessage, batch float64) perMessage {
	for i := 1; i < len(costs); i++ {
		low, high := costs[i-1], costs[i]
		if batch > high.batch {
			continue
		}
		share := (math.Log(batch) - math.Log(low.batch)) / (math.Log(high.batch) - math.Log(low.batch))
		between := func(a, b float64) float64 { return math.Exp(math.Log(a) + share*(math.Log(b)-math.Log(a))) }
		return perMessage{
			batch, between(low.postgres, high.postgres), between(low.server, high.server), between(low.wal, high.wal),
			between(low.syncs, high.syncs),
		}
	}
	largest := costs[len(costs)-1]
	largest.batch = batch
	return largest
}

// costAt returns the costs of a message when an instance has calls calls a second. A call alone has a commit of its own and
// costs more. The share of such calls falls as the calls increase: the commits of an instance approach aloneCalls a second.
func costAt(costs []perMessage, alone perMessage, batch, calls float64) perMessage {
	c := at(costs, batch)
	share := 1.0
	if crowd := calls / aloneCalls; crowd > 0 {
		share = -math.Expm1(-crowd) / crowd
	}
	c.postgres += share * (alone.postgres - costs[0].postgres) / batch
	c.server += share * (alone.server - costs[0].server) / batch
	c.wal += share * (alone.wal - costs[0].wal) / batch
	c.syncs += share * max(0, alone.syncs-c.syncs)
	return c
}
