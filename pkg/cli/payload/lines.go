package payload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Lines are the lines of an input, without empty ones.
type Lines struct {
	// C has the lines. It is closed at the end of the input.
	C <-chan Line

	in   io.Reader
	read atomic.Int64
	size int64 // of a file, or 0
	err  error // of the scanner, before C is closed
}

// Line is a line and its number, the first being 1.
type Line struct {
	Number int
	Text   []byte
}

// ReadLines reads lines of at most longest bytes. It reads in a goroutine that ends with the input, or when nobody receives
// and the process ends.
func ReadLines(in io.Reader, longest int) *Lines {
	const ahead = 1000
	lines := make(chan Line, ahead)
	l := &Lines{C: lines, in: in}
	if f, isFile := in.(*os.File); isFile {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			l.size = info.Size()
		}
	}
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(l)
		scanner.Buffer(make([]byte, 64<<10), longest)
		for n := 1; scanner.Scan(); n++ {
			if line := bytes.TrimSpace(scanner.Bytes()); len(line) > 0 {
				lines <- Line{n, bytes.Clone(line)}
			}
		}
		if err := scanner.Err(); err != nil {
			l.err = fmt.Errorf("reading lines: %w", err)
		}
	}()
	return l
}

// Read implements io.Reader, and counts.
func (l *Lines) Read(b []byte) (int, error) {
	n, err := l.in.Read(b)
	l.read.Add(int64(n))
	return n, err
}

// Err returns why reading ended before the end of the input, or nil. Call it after C was closed.
func (l *Lines) Err() error { return l.err }

// Share returns how much of a file is read, from 0 to 1. It is -1 if the size is not known.
func (l *Lines) Share() float64 {
	if l.size == 0 {
		return -1
	}
	return float64(l.read.Load()) / float64(l.size)
}
