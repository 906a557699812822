// Package plan computes the size of machines for Belfry and Postgres, from the numbers of a user and from measured
// costs. It connects to nothing.
package plan

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Input is the load for which a machine is planned. The flags of `belfry bench plan` describe the fields.
type Input struct {
	Rate        float64       `json:"rate"`
	Payload     int           `json:"payload"`
	Batch       int           `json:"batch"`
	PopBatch    int           `json:"popBatch"`
	Groups      int           `json:"groups"`
	Waiting     int           `json:"waiting"`
	Partitions  int           `json:"partitions"`
	Retention   time.Duration `json:"-"`
	Instances   int           `json:"instances"`
	Utilization int           `json:"utilization"`
}

// Defaults returns the load of a small service.
func Defaults() Input {
	return Input{
		Rate: 1000, Payload: 256, Batch: 10, Groups: 1, Waiting: 100, Partitions: 100, Retention: 7 * 24 * time.Hour, Instances: 2,
		Utilization: 50,
	}
}

// Validate returns all problems at once. Each problem names the flag to change.
func (in Input) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(in.Rate > 0 && in.Rate <= 1e9, "--rate is %g: give messages per second, above 0 and at most 1000000000", in.Rate)
	check(in.Retention >= 0, "--retention is %s: give a time such as 24h, or 0s to keep no consumed message", in.Retention)
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{
		{"payload", in.Payload, 0, 64 << 20}, {"batch", in.Batch, 1, 10_000}, {"pop-batch", in.PopBatch, 0, 10_000},
		{"groups", in.Groups, 0, 100_000}, {"waiting", in.Waiting, 0, 100_000_000}, {"partitions", in.Partitions, 1, 100_000_000},
		{"instances", in.Instances, 1, 1000}, {"utilization", in.Utilization, 1, 100},
	} {
		check(n.value >= n.least && n.value <= n.most, "--%s is %d: give %d to %d", n.flag, n.value, n.least, n.most)
	}
	return errors.Join(errs...)
}

// Needs are the resources for a load. Bytes and times are for all instances together, unless the name says otherwise.
type Needs struct {
	// PostgresCPU and ServerCPU are the used cores. PostgresCores and ServerCores are the cores to provide, so that
	// only the utilization of the input is used.
	PostgresCPU   float64 `json:"postgresCpu"`
	ServerCPU     float64 `json:"serverCpu"`
	PostgresCores int     `json:"postgresCores"`
	ServerCores   int     `json:"serverCores"`

	WALBytesPerSecond float64 `json:"walBytesPerSecond"`
	// SyncsPerSecond is the number of times that Postgres waits for the disk in a second.
	SyncsPerSecond float64 `json:"syncsPerSecond"`
	// StoredBytes has the messages of the retention, the partitions and the cursors. DiskBytes is the disk to provide.
	StoredBytes float64 `json:"storedBytes"`
	DiskBytes   float64 `json:"diskBytes"`

	WaitingBytes       float64 `json:"waitingBytes"`
	InstanceBytes      float64 `json:"instanceBytes"`
	Connections        int     `json:"connections"`
	InBytesPerSecond   float64 `json:"inBytesPerSecond"`
	OutBytesPerSecond  float64 `json:"outBytesPerSecond"`
	PostgresPerMessage float64 `json:"postgresMicrosPerMessage"`
	ServerPerMessage   float64 `json:"serverMicrosPerMessage"`
}

// Compute returns the needs of a valid input.
func Compute(in Input) Needs {
	batch, popBatch, groups := float64(in.Batch), float64(in.Batch), float64(in.Groups)
	if in.PopBatch > 0 {
		popBatch = float64(in.PopBatch)
	}
	delivered := in.Rate * groups
	instances := float64(in.Instances)
	push := costAt(pushCosts, alonePush, batch, in.Rate/batch/instances)
	pop := costAt(popCosts, alonePop, popBatch, delivered/popBatch/instances)
	more := float64(in.Payload - measuredPayload)

	var n Needs
	n.PostgresPerMessage = atLeast0(push.postgres+more*postgresPushPerByte) + groups*atLeast0(pop.postgres+more*postgresPopPerByte)
	n.ServerPerMessage = atLeast0(push.server+more*serverPushPerByte) + groups*atLeast0(pop.server+more*serverPopPerByte)
	n.PostgresCPU, n.ServerCPU = in.Rate*n.PostgresPerMessage/1e6, in.Rate*n.ServerPerMessage/1e6
	utilization := float64(in.Utilization) / 100
	n.PostgresCores = max(1, int(math.Ceil(n.PostgresCPU/utilization)))
	n.ServerCores = max(1, int(math.Ceil(n.ServerCPU/utilization)))

	n.WALBytesPerSecond = in.Rate*(push.wal+more*walPerByte) + delivered*pop.wal
	n.SyncsPerSecond = in.Rate/batch*push.syncs + delivered/popBatch*pop.syncs
	partitions := float64(in.Partitions)
	n.StoredBytes = in.Rate*in.Retention.Seconds()*(diskBytes+more*diskPerByte) + partitions*(partitionBytes+groups*cursorBytes)
	n.DiskBytes = spare*n.StoredBytes + walDisk

	n.WaitingBytes = float64(in.Waiting) * waitingBytes
	n.InstanceBytes = serverBytes + inFlightBytes + n.WaitingBytes/instances
	n.Connections = connectionsOfInstance * in.Instances
	n.InBytesPerSecond = in.Rate*(float64(in.Payload)+pushSent) + delivered*popSent
	n.OutBytesPerSecond = in.Rate*pushReceived + delivered*(float64(in.Payload)+popReceived)
	return n
}

// atLeast0 returns 0 for a negative cost. A payload below the measured one costs less, but not less than nothing.
func atLeast0(micros float64) float64 { return max(0, micros) }

// Machine is the load that a number of cores can take.
type Machine struct {
	Cores int `json:"cores"`
	// Rate is the number of messages per second at the utilization of the input.
	Rate float64 `json:"rate"`
	// PostgresCPU and ServerCPU are the used cores.
	PostgresCPU       float64 `json:"postgresCpu"`
	ServerCPU         float64 `json:"serverCpu"`
	WALBytesPerSecond float64 `json:"walBytesPerSecond"`
	SyncsPerSecond    float64 `json:"syncsPerSecond"`
	// DiskBytesPerDay is what the messages of a day need.
	DiskBytesPerDay float64 `json:"diskBytesPerDay"`
}

// machineCores are the sizes of the table of machines.
var machineCores = []int{2, 4, 8, 16, 32, 64}

// Machines returns what machines of several sizes can take, if Postgres and Belfry share their cores. The rate of the
// input is not used.
func Machines(in Input) []Machine {
	var all []Machine
	for _, cores := range machineCores {
		in.Rate = rateOf(in, float64(cores)*float64(in.Utilization)/100)
		n := Compute(in)
		all = append(all, Machine{
			cores, in.Rate, n.PostgresCPU, n.ServerCPU, n.WALBytesPerSecond, n.SyncsPerSecond,
			in.Rate * (24 * time.Hour).Seconds() * (diskBytes + float64(in.Payload-measuredPayload)*diskPerByte),
		})
	}
	return all
}

// rateOf returns the rate that uses a number of cores. It halves an interval, because the cost of a message depends on the
// rate.
func rateOf(in Input, cores float64) float64 {
	const rounds = 60
	low, high := 0.0, 1e9
	for range rounds {
		in.Rate = (low + high) / 2
		if n := Compute(in); n.PostgresCPU+n.ServerCPU > cores {
			high = in.Rate
		} else {
			low = in.Rate
		}
	}
	return low
}
