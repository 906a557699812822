package postgres

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// slowHost is the time after which a host counts as slow if it has neither accepted nor refused a connection.
const slowHost = 250 * time.Millisecond

// hostOrder remembers which host of a URL accepted the latest connection, and which hosts were slow when they were tried last. New
// connections try the former first, because a login at a standby costs time. They try slow hosts last, because a silent host costs
// its whole part of the time to connect. The zero value knows no host.
type hostOrder struct {
	mu sync.Mutex
	// patience is the time of each host in a patient attempt: see arrange. It is 0 if the URL has a connect_timeout.
	patience time.Duration
	slow     map[hostKey]bool
	best     hostKey   // the host that accepted the latest connection
	accepted time.Time // when it did
	attempts int
}

// arrange sorts the hosts of config, and watches the attempts to connect with config. If no host has accepted a connection for some
// time, every second attempt is patient: each host gets the time of all hosts. Otherwise no attempt would succeed on a machine that
// is so busy that each login takes longer than the part of one host.
func (o *hostOrder) arrange(config *pgx.ConnConfig) {
	if len(config.Fallbacks) == 0 {
		return
	}
	hosts := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	o.mu.Lock()
	slices.SortStableFunc(hosts, func(a, b *pgconn.FallbackConfig) int { return o.rank(a) - o.rank(b) })
	o.attempts++
	if o.attempts%2 == 0 && o.patience > 0 && time.Since(o.accepted) > o.patience {
		config.ConnectTimeout = o.patience
	}
	o.mu.Unlock()
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = hosts[0].Host, hosts[0].Port, hosts[0].TLSConfig, hosts[1:]
	(&attempt{order: o, names: map[string]string{}}).watch(&config.Config)
}

// bePatient sets the time of each host in a patient attempt.
func (o *hostOrder) bePatient(limit time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.patience = limit
}

// rank returns the order of a host. The caller holds mu.
func (o *hostOrder) rank(host *pgconn.FallbackConfig) int {
	switch key := (hostKey{host.Host, host.Port}); {
	case o.slow[key]:
		return 2
	case key == o.best:
		return 0
	default:
		return 1
	}
}

// accept records that a host has accepted a connection.
func (o *hostOrder) accept(host hostKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.slow, host)
	o.best, o.accepted = host, time.Now()
}

// note records whether a host was slow.
func (o *hostOrder) note(host hostKey, slow bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slow == nil {
		o.slow = map[hostKey]bool{}
	}
	o.slow[host] = slow
}

// attempt is one attempt to connect, host after host.
type attempt struct {
	order *hostOrder

	mu    sync.Mutex
	names map[string]string // the host by IP address
	host  hostKey           // the host that is tried now
	since time.Time         // when the attempt reached this host; zero before the first host
	done  bool              // a host has accepted; later dials belong to cancel requests
}

// watch makes pgx call the attempt.
func (a *attempt) watch(config *pgconn.Config) {
	lookup, dial, connected := config.LookupFunc, config.DialFunc, config.AfterConnect
	config.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addresses, err := lookup(ctx, host)
		a.found(host, addresses)
		return addresses, err
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		a.reach(address)
		return dial(ctx, network, address)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		a.accept()
		if connected == nil {
			return nil
		}
		return connected(ctx, conn)
	}
}

// found begins an attempt: pgx looks up all hosts first.
func (a *attempt) found(host string, addresses []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range addresses {
		a.names[one] = host
	}
	a.since, a.done = time.Time{}, false
}

// reach notes that the previous host has not accepted, and whether it took long.
func (a *attempt) reach(address string) {
	name, port, err := net.SplitHostPort(address)
	number, wrong := strconv.ParseUint(port, 10, 16)
	if err != nil || wrong != nil { // a Unix socket
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.names[name]; ok {
		name = known
	}
	next := hostKey{name, uint16(number)}
	if a.done || next == a.host && !a.since.IsZero() {
		return
	}
	if !a.since.IsZero() {
		a.order.note(a.host, time.Since(a.since) > slowHost)
	}
	a.host, a.since = next, time.Now()
}

// accept notes that the host has accepted.
func (a *attempt) accept() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done = true; !a.since.IsZero() {
		a.order.accept(a.host)
	}
}
