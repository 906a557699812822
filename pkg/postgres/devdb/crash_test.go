package devdb

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestRestartRecoversAfterKill(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c := start(t, testConfig(madeDir(t)))
	url := c.URL("postgres")
	query(t, c, makeNote, readNote)

	// Postgres refuses to start while one of these busy sessions still runs.
	for range 5 {
		conn, err := pgx.Connect(ctx, url)
		require.NoError(t, err)
		result := make(chan error, 1)
		go func() {
			_, err := conn.Exec(ctx, "DO $$ BEGIN LOOP END LOOP; END $$")
			result <- err
		}()
		defer func() {
			require.Error(t, <-result)
			require.NoError(t, conn.Close(ctx))
		}()
	}
	done := c.Done()
	require.NoError(t, c.Kill())
	<-done
	require.NoError(t, c.Kill(), "a second Kill does nothing")
	_, err := pgx.Connect(ctx, url)
	require.Error(t, err)

	require.NoError(t, c.Restart(ctx))
	require.NotEqual(t, done, c.Done(), "a new run has a new channel")
	require.Equal(t, url, c.URL("postgres"))
	require.Equal(t, "kept", query(t, c, readNote))
	require.FileExists(t, filepath.Join(c.Dir(), oldLogName))
}

func TestDoneClosesWhenPostgresDies(t *testing.T) {
	t.Parallel()
	c := start(t, testConfig(madeDir(t)))
	select {
	case <-c.Done():
		t.Fatal("Done is closed while Postgres runs")
	default:
	}
	require.NoError(t, syscall.Kill(c.proc.Load().pid, syscall.SIGQUIT))
	<-c.Done()
}

func TestAnImmediateStopReturnsAnErrorAndRecovers(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := start(t, testConfig(madeDir(t)))
	query(t, c, makeNote, readNote)

	// A stopped checkpointer cannot write, so a fast shutdown cannot finish.
	children, err := childrenOf(c.proc.Load().pid)
	require.NoError(t, err)
	stopped := 0
	for _, child := range children {
		command, err := commandOf(child)
		require.NoError(t, err)
		if strings.Contains(command, "checkpointer") {
			require.NoError(t, syscall.Kill(child, syscall.SIGSTOP))
			stopped++
		}
	}
	require.Equal(t, 1, stopped)
	require.ErrorIs(t, c.Stop(ended), context.Canceled)
	require.True(t, c.proc.Load().cmd.ProcessState.Exited(), "the postmaster exited by itself and was not killed by a signal")
	require.NoError(t, c.Restart(testContext(t)))
	require.Equal(t, "kept", query(t, c, readNote))

	// A postmaster that SIGSTOP has stopped cannot shut down.
	require.NoError(t, syscall.Kill(c.proc.Load().pid, syscall.SIGSTOP))
	require.ErrorIs(t, c.Stop(ended), context.Canceled)
	<-c.Done()
	require.NoError(t, c.Restart(testContext(t)))
	require.Equal(t, "kept", query(t, c, readNote))
}

// owner starts the cluster from another process. It returns that process and the pid of the postmaster.
func owner(t *testing.T, dir string) (process *os.Process, postmaster int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the process has exited unless the test failed
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^\d+\n$`, line)
	_, postmaster, err = readPIDFile(filepath.Join(dir, dataName))
	require.NoError(t, err)
	return cmd.Process, postmaster
}

func TestStartTakesOverFromAKilledOwner(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	dir := madeDir(t)
	process, postmaster := owner(t, dir)
	var inUse *InUseError
	_, err := Start(ctx, testConfig(dir))
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, process.Pid, inUse.PID)

	require.NoError(t, process.Kill())
	_, err = process.Wait() // now the kernel has released the lock
	require.NoError(t, err)
	c := start(t, testConfig(dir))
	require.Equal(t, "1", query(t, c, "SELECT '1'"))
	running, err := isPostmaster(postmaster, c.data())
	require.NoError(t, err)
	require.False(t, running)
}

// orphan runs Postgres on a cluster without an owner.
func orphan(t *testing.T, c *Cluster) (postmaster int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(c.binDir, "postgres"), c.cfg.arguments(c.data(), c.port)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.dir, childEnv(), c.account.processAttributes()
	require.NoError(t, cmd.Start())
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_ = cmd.Wait() // returns an error, because the process is killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the process has exited unless the test failed
		<-waited
	})
	ctx := testContext(t)
	for c.probe(ctx) != nil {
		require.True(t, pause(ctx, probeInterval))
	}
	return cmd.Process.Pid
}

func TestAnOrphanIsStoppedAndLogged(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	cfg := testConfig(madeDir(t))
	c := start(t, cfg)
	query(t, c, makeNote, readNote)
	require.NoError(t, c.Stop(ctx))

	pid := orphan(t, c)
	core, logs := observer.New(zap.WarnLevel)
	cfg.Log = zap.New(core)
	again := start(t, cfg)
	require.Equal(t, "kept", query(t, again, readNote))
	require.Equal(t, 1, logs.Len())
	require.EqualValues(t, pid, logs.All()[0].ContextMap()["pid"])
	require.NoError(t, again.Stop(ctx))

	pid = orphan(t, c)
	require.NoError(t, Remove(ctx, cfg.Dir))
	require.NoDirExists(t, cfg.Dir)
	running, err := isPostmaster(pid, c.data())
	require.NoError(t, err)
	require.False(t, running)
}

func TestStalePIDFileDoesNotBlock(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c := start(t, testConfig(madeDir(t)))
	// After a power cut, the PID file may have the id of another process of the same user.
	sleeper := exec.Command("sleep", "600")
	sleeper.SysProcAttr = c.account.processAttributes()
	require.NoError(t, sleeper.Start())
	defer func() {
		require.NoError(t, sleeper.Process.Kill())
		require.Error(t, sleeper.Wait())
	}()
	for _, first := range []string{fmt.Sprint(sleeper.Process.Pid), "", "torn"} {
		require.NoError(t, c.Kill())
		content, err := os.ReadFile(pidFile(c.data()))
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(content), "\n")
		require.NoError(t, os.WriteFile(pidFile(c.data()), []byte(first+"\n"+rest), 0o600))
		require.NoError(t, c.Restart(ctx), first)
	}
	require.NoError(t, sleeper.Process.Signal(syscall.Signal(0)), "a process that is not Postgres keeps running")
}
