package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

const (
	// childVariable names the child that this process is.
	childVariable = "BENCH_CHILD"
	// stopPatience bounds the orderly end of a child.
	stopPatience = time.Minute
)

// Child is the main function of a child. It returns when in ends.
type Child func(in *bufio.Reader, out io.Writer) error

// RunChild runs the child that this process is, and returns its exit code. ok is false in a parent.
// The child named server is always known.
func RunChild(children map[string]Child) (code int, ok bool) {
	name := os.Getenv(childVariable)
	if name == "" {
		return 0, false
	}
	run, known := children[name]
	if name == serverChild {
		run, known = serve, true
	}
	// Ctrl-C reaches the whole process group, but the parent ends its children.
	signal.Ignore(os.Interrupt)
	err := fmt.Errorf("there is no child %q", name)
	if known {
		err = run(bufio.NewReader(os.Stdin), os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1, true
	}
	return 0, true
}

// UntilEnd returns a context that ends when in ends.
func UntilEnd(in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // any error is an end, too
	}()
	return ctx
}

// Process is a running child. It belongs to one goroutine.
type Process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// Start starts a child with more environment variables. Its errors go to standard error.
func Start(name string, env ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GORACE=" + os.Getenv("GORACE"), childVariable + "=" + name}, env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the child %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the child %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the child %s: %w", name, err)
	}
	return &Process{name: name, cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// WriteLine writes a line to the standard input of the child.
func (p *Process) WriteLine(line string) error {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return fmt.Errorf("writing to the child %s: %w", p.name, err)
	}
	return nil
}

// ReadLine blocks until the child has written a line, and returns it. The end of the child is an
// error.
func (p *Process) ReadLine() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("reading from the child %s: %w", p.name, err)
	}
	return strings.TrimSpace(line), nil
}

// Stop ends the standard input of the child and blocks until it has ended. After a minute it
// kills the child and returns an error.
func (p *Process) Stop() error {
	_ = p.in.Close() // the child may have ended
	timer := time.AfterFunc(stopPatience, func() { _ = p.cmd.Process.Kill() })
	err := p.cmd.Wait()
	if !timer.Stop() {
		err = errors.Join(err, fmt.Errorf("it did not end within %s", stopPatience))
	}
	if err != nil {
		return fmt.Errorf("stopping the child %s: %w", p.name, err)
	}
	return nil
}

// clockTick is the unit of the times in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

// CPU returns the processor time of the child so far. It needs Linux.
func (p *Process) CPU() (time.Duration, error) {
	fields, err := p.proc("stat")
	if err != nil {
		return 0, err
	}
	// The numbers after the name are fields 3 and later; 14 and 15 are user and system time.
	ticks, err := sum(fields, 11, 12)
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of %s: %w", p.name, err)
	}
	return time.Duration(ticks) * clockTick, nil
}

// Memory returns the resident memory of the child in bytes. It needs Linux.
func (p *Process) Memory() (int64, error) {
	fields, err := p.proc("statm")
	if err != nil {
		return 0, err
	}
	pages, err := sum(fields, 1)
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", p.name, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// proc returns the fields of a file in /proc/PID, without the name of the program.
func (p *Process) proc(file string) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	if err != nil {
		return nil, fmt.Errorf("reading the use of the machine by %s: %w", p.name, err)
	}
	fields := string(text)
	if i := strings.LastIndex(fields, ") "); i >= 0 {
		fields = fields[i+2:]
	}
	return strings.Fields(fields), nil
}

// sum adds the numbers at some positions.
func sum(fields []string, positions ...int) (total int64, err error) {
	for _, i := range positions {
		if i >= len(fields) {
			return 0, fmt.Errorf("there are only %d fields: %q", len(fields), fields)
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// Kill ends the child at once, as a crash does.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	_ = p.cmd.Wait() // it was killed
	return nil
}
