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

// All is the name that selects every scenario.
const All = "all"

// maxBatch is the maximum number of messages of one call.
const maxBatch = 10_000

// maxHeaders is the maximum number of headers of a message.
const maxHeaders = 32

// Settings select and configure scenarios. 0 means the default of the scenario, if there is one. The flags of `belfry
// bench` describe the fields.
type Settings struct {
	URL string `json:"url"`
	// Token is sent with each request. An empty token is not sent.
	Token          string        `json:"-"`
	Scenarios      []string      `json:"-"`
	Connections    int           `json:"connections"`
	Producers      int           `json:"producers"`
	Batch          int           `json:"batch"`
	PopBatch       int           `json:"popBatch"`
	Payload        int           `json:"payload"`
	Headers        int           `json:"headers"`
	Partitions     int           `json:"partitions"`
	PushPartitions int           `json:"pushPartitions"`
	PopPartitions  int           `json:"popPartitions"`
	Groups         int           `json:"groups"`
	Window         int           `json:"window"`
	Backlog        int           `json:"backlog"`
	Duration       time.Duration `json:"duration"`
	Warmup         time.Duration `json:"warmup"`
	Rate           float64       `json:"rate"`
	AutoAck        bool          `json:"autoAck"`
	TransactionIDs bool          `json:"transactionIds"`
	Repeat         int           `json:"repeat"`
	Baseline       bool          `json:"baseline"`
	// BaselineConnections 0 means the value of Connections.
	BaselineConnections int  `json:"baselineConnections"`
	HoldSnapshot        bool `json:"holdSnapshot"`
	// CAFile has the CA of an https server. If it is empty, the CAs of this machine are used.
	CAFile string `json:"-"`
	// DatabaseURL is the database of the server. With Baseline or HoldSnapshot, bench also samples the locks in this
	// database.
	DatabaseURL string `json:"-"`
	Keep        bool   `json:"keep"`
	// Patience is the time to wait for the next message. After a longer gap, the remaining messages count as missing.
	Patience time.Duration `json:"-"`
	// Progress is a terminal that shows a line about the current run. It may be nil.
	Progress io.Writer `json:"-"`
}

// Defaults returns settings for a server on this machine.
func Defaults() Settings {
	return Settings{
		URL: "http://127.0.0.1:6632", Scenarios: []string{All}, Payload: 256, PushPartitions: 1, PopPartitions: 10, Backlog: 50_000,
		Duration: 10 * time.Second, Warmup: time.Second, Repeat: 1, Patience: 15 * time.Second,
	}
}

// Validate returns all problems at once. Each problem names the flag to change.
func (s Settings) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	at, err := url.Parse(s.URL)
	check(err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != "",
		"--server is %q: give it as http://host:port or https://name:port", s.URL)
	for _, n := range []struct {
		flag         string
		value, least int
	}{
		{"connections", s.Connections, 0}, {"producers", s.Producers, 0}, {"batch", s.Batch, 0}, {"pop-batch", s.PopBatch, 0},
		{"payload", s.Payload, 0}, {"partitions", s.Partitions, 0}, {"groups", s.Groups, 0}, {"window", s.Window, 0},
		{"baseline-connections", s.BaselineConnections, 0}, {"push-partitions", s.PushPartitions, 1},
		{"pop-partitions", s.PopPartitions, 1}, {"backlog", s.Backlog, 1}, {"repeat", s.Repeat, 1},
	} {
		check(n.value >= n.least, "--%s is %d: give %d or more", n.flag, n.value, n.least)
	}
	check(s.Batch <= maxBatch, "--batch is %d: give at most %d, the limit of a pop", s.Batch, maxBatch)
	check(s.PopBatch <= maxBatch, "--pop-batch is %d: give at most %d, the limit of a pop", s.PopBatch, maxBatch)
	check(s.Headers >= 0 && s.Headers <= maxHeaders, "--headers is %d: give 0 to %d", s.Headers, maxHeaders)
	check(s.Duration > 0, "--duration is %s: give a time such as 10s", s.Duration)
	check(s.Warmup >= 0, "--warmup is %s: give 0s or more", s.Warmup)
	check(s.Rate >= 0, "--rate is %g: give messages per second, or 0 for a closed loop", s.Rate)
	check(!s.Baseline || s.DatabaseURL != "", "--baseline needs a database: set --database-url to the database of the server")
	check(!s.HoldSnapshot || s.DatabaseURL != "", "--hold-snapshot needs a database: set --database-url to the database of the server")
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
		check(with.Connections >= least, "--connections is %d: %s needs at least %d, one producer and one consumer for each group",
			with.Connections, sc.name, least)
	}
	return errors.Join(errs...)
}

// chosen returns the named scenarios, each once.
func (s Settings) chosen() ([]scenario, error) {
	all := scenarios()
	var chosen []scenario
	for n, name := range s.Scenarios {
		if name == All {
			return all, nil
		}
		i := slices.IndexFunc(all, func(sc scenario) bool { return sc.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q: choose from %s, or %s", name, strings.Join(Names(), ", "), All)
		}
		if !slices.Contains(s.Scenarios[:n], name) {
			chosen = append(chosen, all[i])
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no scenario is named: choose from %s, or %s", strings.Join(Names(), ", "), All)
	}
	return chosen, nil
}
