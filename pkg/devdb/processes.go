package devdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const procFS = "/proc/self/stat"

// hasProcFS reports whether the system has /proc. Linux has it, and often lacks ps in a
// container. macOS has only ps.
func hasProcFS() bool {
	_, err := os.Stat(procFS)
	return err == nil
}

// isPostmaster reports whether pid is a postmaster that uses data. Its child processes have
// another command line.
func isPostmaster(pid int, data string) (bool, error) {
	command, err := commandOf(pid)
	if err != nil {
		return false, err
	}
	return strings.Contains(command, "postgres") && strings.Contains(command+" ", "-D "+data+" "), nil
}

// commandOf returns the command line of a process, separated by spaces; empty: there is no
// such process.
func commandOf(pid int) (string, error) {
	if !hasProcFS() {
		out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
		var status *exec.ExitError
		if errors.As(err, &status) {
			return "", nil // no such process
		}
		if err != nil {
			return "", fmt.Errorf("reading the command line of process %d: %w", pid, err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || isNoProcess(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading the command line of process %d: %w", pid, err)
	}
	return strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " ")), nil
}

// childrenOf returns the direct children of a process.
func childrenOf(parent int) ([]int, error) {
	table, err := processTable()
	if err != nil {
		return nil, fmt.Errorf("listing the children of process %d: %w", parent, err)
	}
	var children []int
	for pid, ppid := range table {
		if ppid == parent {
			children = append(children, pid)
		}
	}
	return children, nil
}

// processTable maps each process to its parent.
func processTable() (map[int]int, error) {
	if !hasProcFS() {
		out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
		if err != nil {
			return nil, err
		}
		table := map[int]int{}
		for line := range strings.Lines(string(out)) {
			var pid, ppid int
			if _, err := fmt.Sscan(line, &pid, &ppid); err == nil {
				table[pid] = ppid
			}
		}
		return table, nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	table := make(map[int]int, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has exited
		}
		// "pid (name) state ppid …"; the name may hold spaces and brackets.
		text := string(content)
		var pid, ppid int
		var state string
		if _, err := fmt.Sscan(text, &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscan(text[strings.LastIndexByte(text, ')')+1:], &state, &ppid); err == nil {
			table[pid] = ppid
		}
	}
	return table, nil
}
