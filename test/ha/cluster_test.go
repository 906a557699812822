//go:build installed && linux

package ha

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/httpcall"
)

const (
	// clusterPatience limits the time until all nodes of the cluster are in their roles.
	clusterPatience = 3 * time.Minute
	lookInterval    = 100 * time.Millisecond
	askTimeout      = 3 * time.Second
)

// node is a Postgres with its Patroni.
type node struct {
	name                string
	data, config, log   string
	postgres, rest      int // ports
	env                 []string
	patroni             *process
	superuser, password string
}

// cluster is an etcd and three nodes.
type cluster struct {
	dir   string
	etcd  *process
	nodes []*node
	ports map[string]int // by port of the example and node
}

// startCluster starts a cluster with the files of the example, and creates the database. It stops at the end of the test. dir
// keeps the logs.
func startCluster(ctx context.Context, t *testing.T, dir string) *cluster {
	t.Helper()
	_, uid, gid, err := account()
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, uid, gid))
	c := &cluster{dir: dir, ports: map[string]int{}}
	t.Cleanup(c.stop)

	// One etcd is enough here. The names, addresses and the folder differ from the example.
	vars := readVariables(t, "etcd.env")
	for name, value := range vars {
		vars[name] = localize(value, c.port)
	}
	first, _, _ := strings.Cut(vars["ETCD_INITIAL_CLUSTER"], ",")
	c.etcd, err = start(filepath.Join(dir, "etcd.log"), with(vars, map[string]string{
		"ETCD_INITIAL_CLUSTER": first, "ETCD_DATA_DIR": filepath.Join(dir, "etcd"),
	}), "etcd")
	require.NoError(t, err)

	config := filepath.Join(dir, "patroni.yml")
	const watchdog = "  mode: required\n" // there is none here: the test itself resets a frozen node
	text := readExample(t, "patroni.yml")
	require.Contains(t, text, watchdog)
	require.NoError(t, os.WriteFile(config, []byte(strings.Replace(text, watchdog, "  mode: 'off'\n", 1)), 0o644))
	for i := range 3 {
		c.nodes = append(c.nodes, c.newNode(t, i, config))
		require.NoError(t, c.nodes[i].start())
	}
	c.untilWhole(ctx, t)
	c.createDatabase(ctx, t)
	return c
}

// newNode returns a node with the variables of the example. Only names, addresses and folders differ.
func (c *cluster) newNode(t *testing.T, i int, config string) *node {
	t.Helper()
	vars := readVariables(t, "patroni.env")
	n := &node{
		name: fmt.Sprintf("node%d", i+1), config: config, postgres: c.port(i, "5432"), rest: c.port(i, "8008"),
		superuser: vars["PATRONI_SUPERUSER_USERNAME"], password: vars["PATRONI_SUPERUSER_PASSWORD"],
	}
	n.data, n.log = filepath.Join(c.dir, n.name), filepath.Join(c.dir, n.name+".log")
	for name, value := range vars {
		own := value
		if name != "PATRONI_ETCD3_HOSTS" {
			own = strings.ReplaceAll(value, "10.0.0.11:", fmt.Sprintf("10.0.0.1%d:", i+1))
		}
		vars[name] = localize(own, c.port)
	}
	hosts, _, _ := strings.Cut(vars["PATRONI_ETCD3_HOSTS"], ",")
	n.env = with(vars, map[string]string{
		"PATRONI_NAME": n.name, "PATRONI_POSTGRESQL_DATA_DIR": n.data, "PATRONI_ETCD3_HOSTS": hosts, "HOME": c.dir,
		"PATRONI_POSTGRESQL_PGPASS": filepath.Join(c.dir, n.name+".pgpass"),
	})
	return n
}

func (n *node) start() (err error) {
	n.patroni, err = start(n.log, n.env, "patroni", n.config)
	return err
}

// kill ends Patroni and Postgres at once.
func (n *node) kill() {
	n.patroni.signal(syscall.SIGSTOP) // otherwise Patroni could see the end of Postgres and give up its lock
	signalPostgres(n.data, killed)
	n.patroni.kill()
}

// freeze stops Patroni and Postgres. Their connections stay open. The result lets them continue.
func (n *node) freeze() (thaw func()) {
	n.patroni.signal(syscall.SIGSTOP)
	signalPostgres(n.data, syscall.SIGSTOP)
	return func() {
		signalPostgres(n.data, syscall.SIGCONT)
		n.patroni.signal(syscall.SIGCONT)
	}
}

func (n *node) url(database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", n.superuser, n.password, n.postgres, database)
}

// stop kills all processes of the cluster.
func (c *cluster) stop() {
	for _, n := range c.nodes {
		if n.patroni != nil {
			n.kill()
		}
	}
	c.etcd.kill()
}

// port returns a free port for a port of the example. It returns the same port for the same arguments.
func (c *cluster) port(node int, port string) int {
	key := fmt.Sprintf("%d:%s", node, port)
	if c.ports[key] == 0 {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
		if err != nil {
			panic(err) // this machine has no free port
		}
		c.ports[key] = listener.Addr().(*net.TCPAddr).Port //nolint:errcheck // a TCP listener has a TCP address
		_ = listener.Close()
	}
	return c.ports[key]
}

// member is a node as Patroni describes it.
type member struct {
	Name, Role, State string
	Timeline          int
}

// members asks the nodes one after the other for the state of the cluster.
func (c *cluster) members(ctx context.Context) (members []member, err error) {
	for _, n := range c.nodes {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		var got httpcall.Reply
		got, err = httpcall.Send(asking, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d", n.rest), httpcall.Call{Method: http.MethodGet, Target: "/cluster"})
		cancel()
		if err != nil {
			continue
		}
		var state struct{ Members []member }
		if err = json.Unmarshal(got.Raw, &state); err == nil {
			return state.Members, nil
		}
	}
	return nil, err
}

// leader returns the node that Patroni calls the leader, or nil.
func (c *cluster) leader(ctx context.Context) *node {
	members, err := c.members(ctx)
	if err != nil {
		return nil
	}
	for _, m := range members {
		for _, n := range c.nodes {
			if m.Role == "leader" && m.Name == n.name {
				return n
			}
		}
	}
	return nil
}

// isWhole reports whether there is a leader, a synchronous standby and another standby on one timeline.
func isWhole(members []member) bool {
	roles := map[string]int{}
	for _, m := range members {
		if m.State != "running" && m.State != "streaming" || m.Timeline != members[0].Timeline {
			return false
		}
		roles[m.Role]++
	}
	return roles["leader"] == 1 && roles["sync_standby"] == 1 && roles["replica"] == 1
}

// untilWhole waits until every node is in its role.
func (c *cluster) untilWhole(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, clusterPatience)
	defer cancel()
	for {
		members, err := c.members(ctx)
		if err == nil && isWhole(members) {
			return
		}
		if !pause(ctx, lookInterval) {
			require.FailNow(t, "the cluster is not whole", "%+v %v", members, err)
		}
	}
}

// createDatabase runs the SQL of the example, and creates the table of the meter.
func (c *cluster) createDatabase(ctx context.Context, t *testing.T) {
	t.Helper()
	leader := c.leader(ctx)
	require.NotNil(t, leader)
	run := func(database string, statements ...string) {
		conn, err := pgx.Connect(ctx, leader.url(database))
		require.NoError(t, err)
		defer func() { _ = conn.Close(ctx) }()
		for _, statement := range statements {
			_, err := conn.Exec(ctx, statement)
			require.NoError(t, err, statement)
		}
	}
	for statement := range strings.SplitSeq(readExample(t, "belfry.sql"), ";\n") {
		run("postgres", statement)
	}
	run("belfry", "CREATE TABLE public.meter (at timestamptz)")
	for _, n := range c.nodes { // a standby that is behind would refuse connections to a database that it does not know yet
		for {
			conn, err := pgx.Connect(ctx, n.url("belfry"))
			if err == nil {
				require.NoError(t, conn.Close(ctx))
				break
			}
			require.True(t, pause(ctx, lookInterval), "%s does not have the database: %v", n.name, err)
		}
	}
}

// switchOver makes another node the primary. It returns when Patroni says that this is done.
func (c *cluster) switchOver(ctx context.Context, from *node) error {
	cmd := exec.CommandContext(ctx, "patronictl", "-c", from.config, "switchover", "--master", from.name, "--force", "belfry")
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, from.env...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Successfully switched over") {
		return fmt.Errorf("patronictl switchover: %w\n%s", err, out)
	}
	return nil
}
