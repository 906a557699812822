package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// hostKey is one address of a URL.
type hostKey struct {
	host string
	port uint16
}

// ShareConnectTimeout divides limit among the hosts of a URL: each host gets an equal part. So a host that accepts connections and
// never answers leaves time for the other hosts. If the URL has a connect_timeout, each host gets at most this time.
func ShareConnectTimeout(config *pgconn.Config, limit time.Duration) {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = hostShare(config, limit)
	}
}

// hostShare returns the part of limit for each host.
func hostShare(config *pgconn.Config, limit time.Duration) time.Duration {
	hosts := map[hostKey]bool{{config.Host, config.Port}: true}
	for _, one := range config.Fallbacks { // a host may be here twice: with and without TLS
		hosts[hostKey{one.Host, one.Port}] = true
	}
	return limit / time.Duration(len(hosts))
}
