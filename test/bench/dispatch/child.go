package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// startPatience bounds the start of a child, its migration included.
	startPatience = time.Minute
	// startLook is the pause between two looks at a child that starts.
	startLook = 20 * time.Millisecond
)

// child is a process of ours whose use of the machine can be read apart from
// that of the load generator.
type child struct {
	name    string
	pid     int
	process *os.Process
	log     string
	// done closes when the process has ended; err is then what Wait returned.
	done chan struct{}
	err  error
}

// startChild runs a program with nothing in its environment but env and what it
// needs to run at all. It ends when the bench ends, however that happens.
func startChild(name, log, program string, args, env []string) (*child, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("making the log of %s: %w", name, err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	endWithParent(cmd.SysProcAttr)
	c := &child{name: name, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(c.done)
		// The kernel watches the thread that started the child, so this one stays
		// until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			c.process, c.pid = cmd.Process, cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
		_ = out.Close()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

// until looks again and again whether the child is ready. It fails when the
// child ends, when ctx ends, or after a minute.
func (c *child) until(ctx context.Context, ready func(ctx context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	ticker := time.NewTicker(startLook)
	defer ticker.Stop()
	for !ready(ctx) {
		select {
		case <-ticker.C:
		case <-c.done:
			return fmt.Errorf("%s ended at once: %w\n%s", c.name, c.err, c.said())
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w\n%s", c.name, ctx.Err(), c.said())
		}
	}
	return nil
}

// stop ends the child in order, or at once when that takes longer than a
// minute. What it complained of until now goes to standard error.
func (c *child) stop() error {
	if text := c.said(); text != "" {
		printf(os.Stderr, "%s wrote:\n%s\n", c.name, text)
	}
	_ = c.process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	var err error
	select {
	case <-c.done:
	case <-timer.C:
		_ = c.process.Kill()
		<-c.done
		err = fmt.Errorf("%s did not stop within %s", c.name, stopPatience)
	}
	if c.err != nil {
		err = errors.Join(err, fmt.Errorf("%s ended badly: %w", c.name, c.err))
	}
	return err
}

// said returns the end of the log.
func (c *child) said() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return ""
	}
	const most = 4000
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return strings.TrimSpace(string(text))
}

// instance is one running server and a client of it.
type instance struct {
	*child
	*client
}

type instances []*instance

// stop ends all of them.
func (all instances) stop() error {
	var errs []error
	for _, in := range all {
		in.idle()
		errs = append(errs, in.stop())
	}
	return errors.Join(errs...)
}

// startInstance starts a server with the default settings.
func (r *rig) startInstance(ctx context.Context, database string) (*instance, error) {
	c, addr, err := r.startListening(ctx, "belfry", r.binary, []string{"serve"}, func(addr string) []string {
		return []string{
			"BELFRY_DATABASE_URL=" + r.cluster.URL(database), "BELFRY_HTTP_ADDR=" + addr, "BELFRY_LOG_LEVEL=warn",
		}
	})
	if err != nil {
		return nil, err
	}
	in := &instance{child: c, client: newClient("http://" + addr)}
	err = c.until(ctx, func(ctx context.Context) bool {
		h, err := in.health(ctx)
		return err == nil && h.Listener.State == "proven"
	})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return in, nil
}

// startBare starts the bench's own bare server, to compare with.
func (r *rig) startBare(ctx context.Context) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding our own program: %w", err)
	}
	c, addr, err := r.startListening(ctx, "the bare server", self, []string{bareCommand}, func(addr string) []string {
		return []string{bareAddress + "=" + addr}
	})
	if err != nil {
		return nil, err
	}
	in := &instance{child: c, client: newClient("http://" + addr)}
	err = c.until(ctx, func(ctx context.Context) bool {
		_, _, err := in.do(ctx, http.MethodGet, "/", nil)
		return err == nil
	})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return in, nil
}

// startListening starts a program that listens on a free port.
func (r *rig) startListening(ctx context.Context, name, program string, args []string, env func(addr string) []string) (*child, string, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("picking a free port: %w", err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return nil, "", fmt.Errorf("picking a free port: %w", err)
	}
	r.started++
	c, err := startChild(name, filepath.Join(r.dir, fmt.Sprintf("%d.log", r.started)), program, args, env(addr))
	return c, addr, err
}
