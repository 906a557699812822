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
	"syscall"
	"time"
)

const (
	// childVariable is the environment variable with the name of the child that this process must run.
	childVariable = "BENCH_CHILD"
	// stopPatience limits the time of an orderly stop of a child.
	stopPatience = time.Minute
)

// Child is the main function of a child. It returns when in ends.
type Child func(in *bufio.Reader, out io.Writer) error

// RunChild runs the child that childVariable names, and returns its exit code. In a parent, ok is false. The child named
// server always exists.
func RunChild(children map[string]Child) (code int, ok bool) {
	name := os.Getenv(childVariable)
	if name == "" {
		return 0, false
	}
	run, known := children[name]
	if name == serverChild {
		run, known = serve, true
	}
	// Ctrl-C reaches the whole process group. The children ignore it, because the parent ends them.
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
		_, _ = io.Copy(io.Discard, in) // an error also means the end
	}()
	return ctx
}

// Program describes a child to start.
type Program struct {
	Name string
	// Path is the program. If it is empty, the program of this process is used.
	Path string
	// Env are additional environment variables.
	Env []string
	// Errors receives the standard error of the child. If it is nil, the standard error of this process receives it.
	Errors *os.File
}

// unreadLines is how many lines of a child are kept until they are read. Further lines are dropped, so that the child does
// not block.
const unreadLines = 16

// Process is a running child. Only one goroutine may call its methods, except Ended and Err.
type Process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	// ended closes when the process has ended. err is then the result of Wait.
	ended chan struct{}
	err   error
}

// Start starts a child of this program with additional environment variables. The child shares the standard error of this
// process.
func Start(name string, env ...string) (*Process, error) {
	return Program{Name: name, Env: env}.Start()
}

// Start starts the child.
func (program Program) Start() (_ *Process, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("starting the child %s: %w", program.Name, err)
		}
	}()
	if program.Path == "" {
		if program.Path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if program.Errors == nil {
		program.Errors = os.Stderr
	}
	cmd := exec.Command(program.Path)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GORACE=" + os.Getenv("GORACE"), childVariable + "=" + program.Name,
	}, program.Env...)
	cmd.Stderr = program.Errors
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{name: program.Name, cmd: cmd, in: in, lines: make(chan string, unreadLines), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer close(p.lines)
		for said := bufio.NewScanner(out); said.Scan(); {
			select {
			case p.lines <- said.Text():
			default:
			}
		}
		p.err = cmd.Wait()
	}()
	return p, nil
}

// WriteLine writes a line to the standard input of the child.
func (p *Process) WriteLine(line string) error {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return fmt.Errorf("writing to the child %s: %w", p.name, err)
	}
	return nil
}

// ReadLine blocks until the child has written a line, and returns the line. It returns an error if the child or ctx ends
// first.
func (p *Process) ReadLine(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", errors.Join(fmt.Errorf("the child %s ended", p.name), p.Err())
		}
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		return "", fmt.Errorf("reading from the child %s: %w", p.name, ctx.Err())
	}
}

// Ended reports whether the child has ended. err is nil if its exit code was 0.
func (p *Process) Ended() (ended bool, err error) {
	select {
	case <-p.ended:
		return true, p.err
	default:
		return false, nil
	}
}

// Err blocks until the child has ended. It returns nil if the exit code was 0.
func (p *Process) Err() error {
	<-p.ended
	return p.err
}

// Stop ends the standard input of the child and blocks until it has ended. After a minute it
// kills the child and returns an error.
func (p *Process) Stop() error {
	_ = p.in.Close() // fails if the child has ended
	return p.stopped(stopPatience)
}

// Terminate sends SIGTERM to the child and blocks until the child has ended. After patience it kills the child and returns
// an error.
func (p *Process) Terminate(patience time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the child %s: %w", p.name, err)
	}
	return p.stopped(patience)
}

func (p *Process) stopped(patience time.Duration) error {
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	err := p.Err()
	if !timer.Stop() {
		err = errors.Join(err, fmt.Errorf("it did not end within %s", patience))
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
	// The fields start with the third field of the file. Fields 14 and 15 of the file are user and system time.
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
		return nil, fmt.Errorf("reading the processor time or memory of %s: %w", p.name, err)
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

// Kill ends the child at once, as a crash does. It returns when the child has ended.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}
