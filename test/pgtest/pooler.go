package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pooler is a PgBouncer in front of a Postgres. It accepts every user.
type Pooler struct {
	// Addr is the address on which PgBouncer listens.
	Addr    string
	process *exec.Cmd
	log     bytes.Buffer
	// ended closes when the process has ended.
	ended chan struct{}
}

// StartPooler starts a PgBouncer and returns when PgBouncer answers. PgBouncer runs until Close. Its files are in dir. If
// this process runs as root, the account nobody must be able to read dir. databases maps names to connection strings with
// options. size is the default number of sessions of each database. If PgBouncer is not installed, the error names the
// missing package.
func StartPooler(ctx context.Context, dir string, databases map[string]string, size int) (*Pooler, error) {
	path, err := exec.LookPath("pgbouncer")
	if err != nil { // Debian installs PgBouncer in a folder that only root has in its PATH
		path, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		return nil, fmt.Errorf("pgbouncer is missing: install it (Debian: apt-get install pgbouncer): %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Pooler{Addr: listener.Addr().String(), ended: make(chan struct{})}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return nil, err
	}
	var settings strings.Builder
	fmt.Fprintln(&settings, "[databases]")
	for name, way := range databases {
		fmt.Fprintf(&settings, "%s = %s\n", name, way)
	}
	fmt.Fprintf(&settings, "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
		"auth_type = any\nadmin_users = postgres\ndefault_pool_size = %d\nserver_login_retry = 0.1\n", port, size)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings.String()), 0o644); err != nil {
		return nil, err
	}
	args := []string{file}
	if os.Geteuid() == 0 { // PgBouncer refuses to run as root
		args = append(args, "--user", "nobody")
	}
	p.process = exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	p.process.Stderr = &p.log
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.process.Wait() // the log has the messages of the process
	}()
	if err := p.answers(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, p.Close())
	}
	return p, nil
}

// answers waits until PgBouncer answers.
func (p *Pooler) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	ticker := time.NewTicker(startLook)
	defer ticker.Stop()
	for {
		conn, err := pgx.Connect(ctx, p.URL("pgbouncer"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ticker.C:
		case <-p.ended:
			return errors.New("PgBouncer ended")
		case <-ctx.Done():
			return fmt.Errorf("waiting for PgBouncer: %w", err)
		}
	}
}

// URL returns the DSN of a database. The database "pgbouncer" is the console.
func (p *Pooler) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.Addr, database)
}

// Close kills the process and returns its log.
func (p *Pooler) Close() (log string) {
	_ = p.process.Process.Kill() // fails if the process has ended already
	<-p.ended
	return p.log.String()
}
