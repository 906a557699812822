package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Process has values that only a running server knows.
type Process struct {
	// Listener returns the state of the listener and the time since its last proof.
	Listener func() (state string, proof time.Duration)
	// SpoolDir is spool.dir. SpoolHealthy returns an error if the folder cannot be used.
	SpoolDir     string
	SpoolHealthy func() error
	// Authenticated is true if requests need a token or a client certificate.
	Authenticated bool
	// Addr is the address on which the server listens.
	Addr net.Addr
}

// processChecks examine the server itself.
var processChecks = []check{
	{"server", "Only the server knows its listener, its spool, its keys and its address.", checkServer},
	{"spool_disk", "An instance that cannot write to its spool refuses pushes during push maintenance.", ofProcess(checkSpoolDisk)},
	{"open_port", "Without auth.enabled, everybody who can connect to the port may read, change and delete everything.", ofProcess(checkPort)},
}

func checkServer(_ context.Context, e *exam) outcome {
	const step = "belfry doctor --server URL"
	switch {
	case e.Process != nil:
		return fine("A server of version %s answers at %s.", e.Version, e.Process.Addr)
	case e.ServerWanted:
		return wrong("No server was examined: %s.", e.NoServer).advise("belfry health --server URL", step)
	}
	return unknown("No server was examined: %s.", e.NoServer).advise(step)
}

// ofProcess returns a check that needs a server.
func ofProcess(run func(p *Process) outcome) func(ctx context.Context, e *exam) outcome {
	return func(_ context.Context, e *exam) outcome {
		if e.Process == nil {
			return unknown("Only a running server can do this check.")
		}
		return run(e.Process)
	}
}

func checkSpoolDisk(p *Process) outcome {
	if err := p.SpoolHealthy(); err != nil {
		return warning("spool.dir %s cannot be used: %v.", p.SpoolDir, err).advise("Make the folder writable for the user of the server, or set spool.dir, and restart.")
	}
	folder := existing(p.SpoolDir)
	free, all, err := diskRoom(folder)
	if err != nil {
		return unknown("The free space in spool.dir %s is not known: %v.", p.SpoolDir, err)
	}
	return judgeRoom(folder, free, all).advise("Free space on that disk.")
}

// existing returns the folder, or its nearest parent that exists. A spool creates its folder only
// when it stores its first message.
func existing(folder string) string {
	for {
		_, err := os.Stat(folder)
		above := filepath.Dir(folder)
		if !errors.Is(err, fs.ErrNotExist) || above == folder {
			return folder
		}
		folder = above
	}
}

func checkPort(p *Process) outcome {
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return failed(err)
	}
	ip := net.ParseIP(host)
	switch {
	case p.Authenticated:
		return fine("Requests need a token or a client certificate.")
	case ip != nil && ip.IsLoopback():
		return fine("Requests need no token, and only this machine reaches %s.", p.Addr)
	}
	return warning("The server listens on %s, and requests need no token.", p.Addr).advise("Set auth.enabled and a key (docs/security.md), or http.addr to 127.0.0.1:PORT.", "Or let only your own network reach the port.")
}
