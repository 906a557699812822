package stats

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlMessageWindow = sql.Query("insight/stats/message_window")
	sqlQueuesOf      = sql.Query("insight/stats/queues_of")
)

// Window is a bounded number of partitions, ordered by the id of their queue and by their name. A list of messages with a
// Window reads only these partitions, so its cost does not grow with the number of all partitions. A Window with only a
// Size starts at the first partition.
type Window struct {
	// Size is the number of partitions, at least 1.
	Size int

	// queue and name belong to the partition before the window.
	queue int64
	name  string
	// look sets partitions and next.
	partitions []int64
	next       *Window
}

// look reads the partitions of the window of a filter. It returns the queues of these partitions that match the filter. named
// is the queue with the name of the filter, or empty.
func (r *Reader) look(ctx context.Context, f *MessageFilter, named []Queue) ([]Queue, error) {
	w, last := *f.Window, int64(math.MaxInt64)
	f.Window = &w
	w.partitions, w.next = []int64{}, nil
	if f.Queue != nil && len(named) == 0 {
		return nil, nil
	}
	if f.Queue != nil {
		last = named[0].key
		w.queue = max(w.queue, last-1)
		if w.queue < last {
			w.name = "\U0010FFFF" // greater than all names, so the window has no partition of the previous queue
		}
	}
	var next Window
	var queues []int64
	_, err := postgres.Collect(ctx, r.pool, sqlMessageWindow, func(row pgx.CollectableRow) (none struct{}, err error) {
		var id int64
		err = row.Scan(&id, &next.queue, &next.name)
		w.partitions = append(w.partitions, id)
		if len(queues) == 0 || queues[len(queues)-1] != next.queue {
			queues = append(queues, next.queue)
		}
		return none, err
	}, w.queue, w.name, last, int64(w.Size))
	if err != nil {
		return nil, err
	}
	if len(w.partitions) == w.Size {
		next.Size = w.Size
		w.next = &next
	}
	if f.Queue != nil {
		return named, nil
	}
	return postgres.Collect(ctx, r.pool, sqlQueuesOf, scanQueue, queues, f.Namespace, f.Task, postgres.LikePatterns(f.Allowed), nil)
}

// Token returns the start of the window as text for ParseWindow.
func (w *Window) Token() string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(w.queue)), w.name...)) //nolint:gosec // an id is positive
}

// ParseWindow reads a token. An empty token is the first window. Errors: CodeInvalid.
func ParseWindow(token string, size int) (*Window, error) {
	w := &Window{Size: size}
	if token == "" {
		return w, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 8 || b[0] > 0x7f || !utf8.Valid(b[8:]) || slices.Contains(b[8:], 0) {
		return nil, queue.Invalidf("partitionsAfter is not one that an earlier answer gave as nextPartitions: send that text unchanged")
	}
	w.queue, w.name = int64(binary.BigEndian.Uint64(b)), string(b[8:]) //nolint:gosec // the first bit is 0
	return w, nil
}
