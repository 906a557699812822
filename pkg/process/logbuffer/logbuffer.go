// Package logbuffer writes the log of a server without waiting for its reader.
//
// A log often goes to a pipe. If the reader of the pipe stalls, a direct write would block each goroutine that logs, and the
// server would stop. So lines go to a bounded buffer, and one goroutine writes them. If the buffer is full, lines are dropped and
// counted. If the reader has closed the pipe, all lines are dropped, and the channel of Gone is closed. The package imports only
// the standard library.
package logbuffer

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"
)

const (
	// size is the maximum number of buffered bytes. The chunk in the current call of Write does not count.
	size = 1 << 20
	// syncPatience is how long Sync waits.
	syncPatience = time.Second
)

// Buffer is a bounded buffer of lines. It is safe for concurrent use.
type Buffer struct {
	to   io.Writer
	gone chan struct{}

	mu      sync.Mutex
	pending bytes.Buffer
	writing bool
	// written is closed and replaced when the buffer is empty.
	written chan struct{}
	// dropped counts the dropped lines. reported is the number of dropped lines that onDropped was told about.
	dropped, reported int64
	failed            bool
	onDropped         func(lines int64)
}

// New returns a Buffer that writes to a file. When the reader reads again, the Buffer calls onDropped with the number of dropped
// lines. onDropped may be nil, and may write to the Buffer.
func New(to io.Writer, onDropped func(lines int64)) *Buffer {
	return &Buffer{to: to, gone: make(chan struct{}), written: make(chan struct{}), onDropped: onDropped}
}

// Write buffers one or more whole lines, or drops them. It does not block, and returns no error.
func (b *Buffer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed || b.pending.Len()+len(lines) > size {
		b.dropped++
		return len(lines), nil
	}
	b.pending.Write(lines)
	if !b.writing {
		b.writing = true
		go b.write()
	}
	return len(lines), nil
}

// write writes to the file until the buffer is empty.
func (b *Buffer) write() {
	var chunk []byte
	for {
		b.mu.Lock()
		if b.pending.Len() == 0 || b.failed {
			b.writing = false
			close(b.written)
			b.written = make(chan struct{})
			unreported := b.dropped - b.reported
			b.reported = b.dropped
			tell := b.onDropped != nil && unreported > 0 && !b.failed
			b.mu.Unlock()
			if tell {
				b.onDropped(unreported)
			}
			return
		}
		chunk = append(chunk[:0], b.pending.Bytes()...)
		b.pending.Reset()
		b.mu.Unlock()
		if _, err := b.to.Write(chunk); err != nil {
			b.fail(bytes.Count(chunk, []byte("\n")), errors.Is(err, syscall.EPIPE))
		}
	}
}

// fail counts lines that could not be written. If readerClosed is true, all later lines are dropped.
func (b *Buffer) fail(lines int, readerClosed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += int64(lines)
	if readerClosed {
		b.failed = true
		close(b.gone)
	}
}

// Sync waits until all lines are written, for a second at most. It returns nil.
func (b *Buffer) Sync() error {
	b.mu.Lock()
	written, writing := b.written, b.writing
	b.mu.Unlock()
	if !writing {
		return nil
	}
	select {
	case <-written:
	case <-time.After(syncPatience):
	}
	return nil
}

// Dropped returns how many lines were dropped.
func (b *Buffer) Dropped() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Gone returns a channel that is closed when a write finds that the reader has closed the file.
func (b *Buffer) Gone() <-chan struct{} { return b.gone }
