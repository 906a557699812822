package devdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// isPostmaster reports whether pid is a postmaster that uses data. Its child processes have
// another command line.
func isPostmaster(pid int, data string) (bool, error) {
	command, err := commandOf(pid)
	if err != nil {
		return false, fmt.Errorf("reading the command line of process %d: %w", pid, err)
	}
	return strings.Contains(command, "postgres") && strings.Contains(command+" ", "-D "+data+" "), nil
}

// commandOf returns the command line of a process, separated by spaces; empty: there is no
// such process. Linux often lacks ps in a container, and macOS has only ps.
func commandOf(pid int) (string, error) {
	if runtime.GOOS == "linux" {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return "", nil
		}
		return strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " ")), err
	}
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	var status *exec.ExitError
	if errors.As(err, &status) {
		return "", nil // no such process
	}
	return strings.TrimSpace(string(out)), err
}

// childrenOf returns the direct children of a process.
func childrenOf(parent int) ([]int, error) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
	if errors.Is(err, fs.ErrNotExist) { // another system than Linux, or a kernel without this file
		list, err = exec.Command("pgrep", "-P", strconv.Itoa(parent)).Output()
	}
	if err != nil {
		return nil, fmt.Errorf("listing the children of process %d: %w", parent, err)
	}
	var children []int
	for _, field := range strings.Fields(string(list)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("listing the children of process %d: %w", parent, err)
		}
		children = append(children, child)
	}
	return children, nil
}
