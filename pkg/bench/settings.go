package bench

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

// All names every scenario.
const All = "all"

// maxBatch is the most messages of one call.
const maxBatch = 10_000

// Settings select and configure scenarios. 0 is the default of the scenario, if it has one.
type Settings struct {
	URL       string   `json:"url"`
	Scenarios []string `json:"-"`
	// Connections is the number of concurrent requests of producers and consumers together.
	Connections int `json:"connections"`
	// Producers is the number of connections that push in scenarios with consumers; 0 is an
	// equal share, as if the producers were one more group.
	Producers int `json:"producers"`
	// Batch is messages in a push.
	Batch int `json:"batch"`
	// PopBatch is the most messages of a pop; 0 is Batch.
	PopBatch int `json:"popBatch"`
	// Payload is the length of a message in bytes, or more if its numbers need more.
	Payload    int `json:"payload"`
	Partitions int `json:"partitions"`
	// PushPartitions is the number of partitions in a push. The official clients push to one.
	PushPartitions int `json:"pushPartitions"`
	// PopPartitions is the most partitions of a pop.
	PopPartitions int `json:"popPartitions"`
	Groups        int `json:"groups"`
	// Window is the most messages in flight while producers and consumers run together in a
	// closed loop; 0 is four batches per connection.
	Window int `json:"window"`
	// Backlog is the number of messages that the scenario pop drains.
	Backlog  int           `json:"backlog"`
	Duration time.Duration `json:"duration"`
	Warmup   time.Duration `json:"warmup"`
	// Rate is messages per second in an open loop; 0 is the closed loop.
	Rate    float64 `json:"rate"`
	AutoAck bool    `json:"autoAck"`
	// TransactionIDs gives every message a transaction id, as the official clients do.
	TransactionIDs bool `json:"transactionIds"`
	// Repeat is the number of runs of each scenario; the median is reported too.
	Repeat int `json:"repeat"`
	// Baseline measures the database at DatabaseURL before each run.
	Baseline bool `json:"baseline"`
	// BaselineConnections is the number of connections of the baseline; 0 is Connections.
	BaselineConnections int `json:"baselineConnections"`
	// HoldSnapshot keeps a REPEATABLE READ transaction open at DatabaseURL during each run.
	HoldSnapshot bool `json:"holdSnapshot"`
	// DatabaseURL is the database of the server. With Baseline or HoldSnapshot it is also watched
	// for locks.
	DatabaseURL string `json:"-"`
	// Keep does not delete the queues.
	Keep bool `json:"keep"`
	// Patience is the time without an arrival after which the remaining messages count as missing.
	Patience time.Duration `json:"-"`
	// Progress is a terminal for a line about the current run; nil for none.
	Progress io.Writer `json:"-"`
}

// Defaults returns settings for a server on this machine.
func Defaults() Settings {
	return Settings{
		URL: "http://127.0.0.1:6632", Scenarios: []string{All}, Payload: 256, PushPartitions: 1, PopPartitions: 10, Backlog: 50_000,
		Duration: 10 * time.Second, Warmup: time.Second, Repeat: 1, Patience: 15 * time.Second,
	}
}

// Validate returns all problems at once; each names the flag to change.
func (s Settings) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	at, err := url.Parse(s.URL)
	check(err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != "",
		"--url is %q: give it as http://host:port", s.URL)
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"connections", s.Connections}, {"producers", s.Producers}, {"batch", s.Batch}, {"pop-batch", s.PopBatch}, {"payload", s.Payload},
		{"partitions", s.Partitions}, {"groups", s.Groups}, {"window", s.Window},
		{"baseline-connections", s.BaselineConnections},
	} {
		check(n.value >= 0, "--%s is %d: give 0 or more", n.flag, n.value)
	}
	check(s.Batch <= maxBatch, "--batch is %d: give at most %d, a pop returns no more", s.Batch, maxBatch)
	check(s.PopBatch <= maxBatch, "--pop-batch is %d: give at most %d, a pop returns no more", s.PopBatch, maxBatch)
	check(s.PushPartitions > 0, "--push-partitions is %d: give 1 or more", s.PushPartitions)
	check(s.PopPartitions > 0, "--pop-partitions is %d: give 1 or more", s.PopPartitions)
	check(s.Backlog > 0, "--backlog is %d: give 1 or more, it is what pop drains", s.Backlog)
	check(s.Duration > 0, "--duration is %s: give a time such as 10s", s.Duration)
	check(s.Warmup >= 0, "--warmup is %s: give 0s or more", s.Warmup)
	check(s.Rate >= 0, "--rate is %g: give messages per second, or 0 for a closed loop", s.Rate)
	check(s.Repeat > 0, "--repeat is %d: give 1 or more", s.Repeat)
	check(!s.Baseline || s.DatabaseURL != "", "--baseline needs a database: set --database-url to the one the server uses")
	check(!s.HoldSnapshot || s.DatabaseURL != "", "--hold-snapshot needs a database: set --database-url to the one the server uses")
	chosen, err := s.chosen()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	paced := func(sc scenario) bool { return sc.paced }
	check(s.Rate == 0 || slices.ContainsFunc(chosen, paced),
		"--rate has no meaning for %s: leave it out, or choose %s", strings.Join(s.Scenarios, ", "), strings.Join(names(paced), ", "))
	for _, sc := range chosen {
		with := sc.settle(s)
		least := sc.least(with)
		check(with.Connections >= least, "--connections is %d: %s needs at least %d, a producer and a consumer of each group",
			with.Connections, sc.name, least)
	}
	return errors.Join(errs...)
}

// chosen returns the named scenarios, each once.
func (s Settings) chosen() ([]scenario, error) {
	all := scenarios()
	var chosen []scenario
	for _, name := range s.Scenarios {
		if name == All {
			return all, nil
		}
		i := slices.IndexFunc(all, func(sc scenario) bool { return sc.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q: choose from %s, or %s", name, strings.Join(Names(), ", "), All)
		}
		if !slices.ContainsFunc(chosen, func(sc scenario) bool { return sc.name == name }) {
			chosen = append(chosen, all[i])
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no scenario is named: choose from %s, or %s", strings.Join(Names(), ", "), All)
	}
	return chosen, nil
}
