package world

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/test/pgproxy"
)

// link is the network from one component to another. It has one proxy for each address: several for a database with a
// standby. All proxies of a link break together.
type link []*pgproxy.Proxy

// openLink opens a proxy to each target. The targets must speak the protocol of Postgres.
func openLink(ctx context.Context, targets []string) (l link, err error) {
	for _, target := range targets {
		p, err := pgproxy.Open(ctx, target)
		if err != nil {
			l.close()
			return nil, err
		}
		l = append(l, p)
	}
	return l, nil
}

// addresses returns the addresses of the proxies.
func (l link) addresses() []string {
	addresses := make([]string, len(l))
	for i, p := range l {
		addresses[i] = p.Addr()
	}
	return addresses
}

func (l link) freeze() (thaw func()) {
	thaws := make([]func(), len(l))
	for i, p := range l {
		thaws[i] = p.Freeze()
	}
	return func() {
		for _, thaw := range thaws {
			thaw()
		}
	}
}

func (l link) freezeOld() {
	for _, p := range l {
		p.FreezeOld()
	}
}

func (l link) cut() {
	for _, p := range l {
		p.Cut()
	}
}

func (l link) lag(late time.Duration) {
	for _, p := range l {
		p.Lag.Store(int64(late))
	}
}

func (l link) swallow(on bool) {
	for _, p := range l {
		p.Swallow.Store(on)
	}
}

// cutCommit makes the proxies lose the answers to the commits of pushes, transactions and acks.
func (l link) cutCommit(on bool) {
	var columns int32
	if on {
		columns = pgproxy.AckColumns
	}
	for _, p := range l {
		p.CutCommit.Store(on)
		p.CutRowOf.Store(columns)
	}
}

func (l link) close() {
	for _, p := range l {
		p.Close()
	}
}
