package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Pinger asks over a separate connection whether the database answers. So a pool whose connections are all in use does not delay
// a ping. The Pinger connects at the first ping, and sends nothing between pings. Its methods are safe for concurrent use.
type Pinger struct {
	config *pgconn.Config
	// turn holds one element during a ping.
	turn chan struct{}
	conn *pgconn.PgConn // used only during a ping; nil while there is no connection
}

// NewPinger returns a Pinger for database.url. Close releases it. An error means that the URL is invalid.
func NewPinger(cfg Config, applicationName string) (*Pinger, error) {
	parsed, err := ParseURL(cfg.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("reading database.url: %w", err)
	}
	config := &parsed.Config
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = applicationName
	}
	return &Pinger{config: config, turn: make(chan struct{}, 1)}, nil
}

// Ping returns nil when the database answers, and an error when it does not answer before ctx ends. Concurrent pings run one
// after the other.
func (p *Pinger) Ping(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("waiting for another ping: %w", ctx.Err())
	}
	defer func() { <-p.turn }()
	if p.conn != nil && p.pingOpen(ctx) == nil {
		return nil
	}
	conn, err := pgconn.ConnectConfig(ctx, p.sharing(ctx))
	if err != nil {
		return fmt.Errorf("connecting to ping the database: %w", err)
	}
	p.conn = conn
	return p.ping(ctx)
}

// pingOpen pings over a connection of an earlier ping. It leaves half of the time for a new connection, because a broken
// connection may never answer.
func (p *Pinger) pingOpen(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	return p.ping(ctx)
}

// sharing returns the config for a new connection. The hosts share the time until ctx ends, also if the URL has a longer
// connect_timeout.
func (p *Pinger) sharing(ctx context.Context) *pgconn.Config {
	deadline, ok := ctx.Deadline()
	if !ok {
		return p.config
	}
	config := p.config.Copy()
	if share := hostShare(config, time.Until(deadline)); config.ConnectTimeout == 0 || share < config.ConnectTimeout {
		config.ConnectTimeout = share
	}
	return config
}

// ping drops the connection if it fails.
func (p *Pinger) ping(ctx context.Context) error {
	err := p.conn.Ping(ctx)
	if err != nil {
		_ = p.conn.Conn().Close() // a regular close could block
		p.conn = nil
		return fmt.Errorf("pinging the database: %w", err)
	}
	return nil
}

// Close closes the connection. No ping may follow.
func (p *Pinger) Close() {
	p.turn <- struct{}{}
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = p.conn.Close(ctx)
}
