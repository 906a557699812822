package plan

import "math"

// The constants of this file were measured on two cores of a virtual machine that other programs used too, with Postgres
// 15 and the settings of docker-compose.yml:
//
//	taskset -c 0,1 go run ./test/bench/costs
//
// The rows are 100-byte messages over 100 partitions. A row has the processor time of all processes of Postgres,
// including those that vacuum and write. docs/sizing.md has the whole output, and the output on one core.

// perMessage is what a message costs at a batch size, while many calls are in flight.
type perMessage struct {
	batch            float64
	postgres, server float64 // microseconds of a core
	wal              float64 // bytes
	syncs            float64 // syncs of the WAL for each call
}

var (
	pushCosts = []perMessage{
		{1, 62.0, 64.7, 665, 0.06}, {10, 21.0, 16.0, 506, 0.14}, {100, 16.2, 8.5, 492, 0.43}, {1000, 6.8, 4.8, 489, 1.05},
	}
	// popCosts are for a pop and its ack, of one group.
	popCosts = []perMessage{
		{1, 188, 154, 774, 0.08}, {10, 43.2, 34.0, 79, 0.17}, {100, 15.9, 11.8, 9, 0.70}, {1000, 3.5, 5.6, 1, 0.98},
	}
	// alonePush and alonePop are for one call at a time, with one message. No other call shares its commit.
	alonePush = perMessage{1, 480, 360, 729, 1.00}
	alonePop  = perMessage{1, 870, 670, 846, 1.02}
)

const (
	// measuredPayload is the payload of the measured messages, in bytes.
	measuredPayload = 100
	// diskBytes is the size of a message with measuredPayload in the table and its indexes.
	diskBytes = 378
	// diskPerByte, walPerByte and the next two are what a further byte of payload adds. They are the difference of the
	// rows with 1,100 and with 100 bytes.
	diskPerByte         = 1.14
	walPerByte          = 1.0
	postgresPushPerByte = 0.0022 // microseconds
	serverPushPerByte   = 0.0067
	postgresPopPerByte  = 0.0059
	serverPopPerByte    = 0.0054
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
	// aloneCalls is the number of calls per second at which calls of one instance begin to share commits. A call alone
	// takes about a millisecond.
	aloneCalls = 1000
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
