package payload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Lines reads the lines of an input, without empty lines.
type Lines struct {
	// C receives the lines. It is closed at the end of the input or after an error.
	C <-chan Line

	in   io.Reader
	read atomic.Int64
	size int64 // size of a regular file, or 0
	err  error // error of the scanner; set before C is closed
}

// Line is a line and its number. The first line has the number 1.
type Line struct {
	Number int
	Text   []byte
}

// ReadLines reads lines of at most longest bytes. It starts a goroutine that ends at the end of the input. If the
// caller stops receiving from C, the goroutine blocks until the process ends.
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

// Read implements io.Reader. It counts the bytes.
func (l *Lines) Read(b []byte) (int, error) {
	n, err := l.in.Read(b)
	l.read.Add(int64(n))
	return n, err
}

// Err returns the error that ended the reading before the end of the input, or nil. Call it only after C is closed.
func (l *Lines) Err() error { return l.err }

// Share returns the share of the file that is read, from 0 to 1. It returns -1 if the size is unknown.
func (l *Lines) Share() float64 {
	if l.size == 0 {
		return -1
	}
	return float64(l.read.Load()) / float64(l.size)
}
