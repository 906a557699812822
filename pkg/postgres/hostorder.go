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

// hostOrder remembers which hosts of a URL were slow when they were tried last. New connections try these hosts last, because a
// silent host costs its whole part of the time to connect. The zero value knows no slow host.
type hostOrder struct {
	mu   sync.Mutex
	slow map[hostKey]bool
}

// arrange moves the slow hosts of config to the end, and watches the attempts to connect with config.
func (o *hostOrder) arrange(config *pgx.ConnConfig) {
	if len(config.Fallbacks) == 0 {
		return
	}
	hosts := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	o.mu.Lock()
	slices.SortStableFunc(hosts, func(a, b *pgconn.FallbackConfig) int { return o.rank(a) - o.rank(b) })
	o.mu.Unlock()
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = hosts[0].Host, hosts[0].Port, hosts[0].TLSConfig, hosts[1:]
	(&attempt{order: o, names: map[string]string{}}).watch(&config.Config)
}

// rank returns 1 for a slow host. The caller holds mu.
func (o *hostOrder) rank(host *pgconn.FallbackConfig) int {
	if o.slow[hostKey{host.Host, host.Port}] {
		return 1
	}
	return 0
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
		a.order.note(a.host, false)
	}
}
