package history

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxDecoded bounds the JSON of the rows of another instance.
	maxDecoded = 1 << 20
	// maxCount is the largest sum of a counter over the rows of another instance, so that the sums of 64
	// instances are in the range of bigint.
	maxCount = 1 << 56
	// maxPercent is the most CPU time of a process, in percent of one core: 100,000 cores.
	maxPercent = 1e7
	// maxAge is how old the rows of another instance are at most. Their clock may be ahead by clockAhead.
	maxAge, clockAhead = time.Hour, 10 * time.Minute
)

// unwritten are rows that are not in the database yet.
type unwritten struct {
	Rows      []row         `json:"rows"`
	Instances []instanceRow `json:"instances"`
}

// unwrittenRows returns the rows of the minute that has begun as if it ended now, and the rows whose statement failed or
// has not ended. The minute has at most so many rows.
func (w *Writer) unwrittenRows(most int) unwritten {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := unwritten{Rows: w.unwritten[:len(w.unwritten):len(w.unwritten)], Instances: w.unwrittenInstances[:len(w.unwrittenInstances):len(w.unwrittenInstances)]}
	pending, worthwhile := w.counts.peek()
	if m := w.rowsLocked(pending, worthwhile, nil, time.Now(), most); m != nil {
		all.Rows, all.Instances = append(all.Rows, m.rows...), append(all.Instances, m.instance)
	}
	return all
}

// Unwritten returns what is counted and not in the database yet, for the Reader of another instance: at most so many
// bytes. If that is not enough, the least busy queues are summed as Other. It returns nil if nothing was counted, or if
// w is nil.
func (w *Writer) Unwritten(size int) []byte {
	if w == nil {
		return nil
	}
	for most := maxRows; most > 0; most /= 2 {
		all := w.unwrittenRows(most)
		if len(all.Rows) == 0 {
			return nil
		}
		all.Rows = all.Rows[max(0, len(all.Rows)-2*most):] // the rows of failed statements come first
		if text := encode(&all); len(text) <= size {
			return text
		}
	}
	return nil
}

func encode(all *unwritten) []byte {
	b := &bytes.Buffer{}
	packed, err := flate.NewWriter(b, flate.BestSpeed)
	if err == nil {
		err = json.NewEncoder(packed).Encode(all)
	}
	if err != nil || packed.Close() != nil { // neither can fail: the buffer and the types do not
		return nil
	}
	return b.Bytes()
}

// decode returns the rows that encode wrote at another instance. Every role of the database can send some, so they may
// be garbage or forged. An error means that they are not used.
func decode(text []byte, now time.Time) (all unwritten, err error) {
	if err := json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(text)), maxDecoded)).Decode(&all); err != nil {
		return unwritten{}, fmt.Errorf("reading the counts of another instance: %w", err)
	}
	var sum Counts
	for i := range all.Rows {
		r := &all.Rows[i]
		ok := usable(r.At, r.Minutes, r.Instance, now, r.Queue, r.Group) && r.within(maxCount) && r.hasHistogram() && (r.Parked == nil || *r.Parked >= 0 && *r.Parked <= math.MaxInt32)
		if sum.Add(&r.Counts); !ok || !sum.within(maxCount) {
			return unwritten{}, fmt.Errorf("reading the counts of another instance: the counts of the queue %q are not possible", r.Queue)
		}
	}
	for i := range all.Instances {
		if r := &all.Instances[i]; !usable(r.At, r.Minutes, r.ID, now, r.Hostname) || !r.possible() {
			return unwritten{}, fmt.Errorf("reading the counts of another instance: the figures of %q are not possible", r.Hostname)
		}
	}
	return all, nil
}

// possible reports whether a process can have the figures of a row. Then Postgres can add up some of them.
func (r *instanceRow) possible() bool {
	for _, percent := range []float64{r.CPUUser, r.CPUSystem} {
		if !(percent >= 0 && percent <= maxPercent) { // true for NaN too
			return false
		}
	}
	for _, size := range []int64{r.RSSBytes, r.HeapBytes} {
		if size < 0 || size > maxCount {
			return false
		}
	}
	for _, n := range []int64{int64(r.Port), int64(r.PID), r.Goroutines, r.PoolSize, r.PoolIdle, r.PoolActive, r.DBErrors} {
		if n < 0 || n > math.MaxInt32 {
			return false
		}
	}
	return true
}

// usable reports whether Postgres can read a row, and whether the row is of this time.
func usable(at time.Time, minutes int, instance string, now time.Time, texts ...string) bool {
	_, err := queue.ParseID(instance)
	return err == nil && minutes == 1 && !at.Before(now.Add(-maxAge)) && !at.After(now.Add(clockAhead)) &&
		!slices.ContainsFunc(texts, func(text string) bool { return strings.ContainsRune(text, 0) })
}

// within reports whether every counter is from 0 to most.
func (c *Counts) within(most int64) bool {
	fields := reflect.ValueOf(*c)
	for i := range fields.NumField() {
		if n := fields.Field(i).Int(); n < 0 || n > most {
			return false
		}
	}
	return true
}

// hasHistogram reports whether the latency is one that Latency.elements returns.
func (r *row) hasHistogram() bool {
	return r.Latency != nil && len(r.Latency) <= buckets && !slices.ContainsFunc(r.Latency, func(e int64) bool { return e < 0 || e >= buckets<<countBits })
}
