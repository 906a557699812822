package history

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
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
	// maxDecoded is the maximum size in bytes of the JSON of another instance's rows.
	maxDecoded = 1 << 20
	// maxCount is the largest accepted sum of a counter over the rows of another instance. The sums of 64
	// instances fit into bigint.
	maxCount = 1 << 56
	// maxPercent is the largest accepted CPU time of a process, in percent of one core: 100,000 cores.
	maxPercent = 1e7
	// An instance sends at most maxSent rows of queues and maxSentInstances rows with the figures of the process.
	maxSent, maxSentInstances = 2 * maxRows, 15
	// maxAge is the largest accepted age of a row of another instance. The clock of that instance may be ahead by at
	// most clockAhead.
	maxAge, clockAhead = time.Hour, 10 * time.Minute
)

// unwritten are rows that are not in the database yet.
type unwritten struct {
	Rows      []row         `json:"rows"`
	Instances []instanceRow `json:"instances"`
}

// minuteOf names a minute of an instance.
type minuteOf struct {
	unix     int64
	instance string
}

// instanceRead is a row of an instance, with the number of messages that the instance delivered in the minute.
type instanceRead struct {
	instanceRow
	Popped int64 `json:"popped"`
}

// instances returns the rows for the statement history/instances. If forged input has two rows for the same minute, only
// the first row gets the number of messages.
func (u *unwritten) instances() []instanceRead {
	popped := map[minuteOf]int64{}
	for i := range u.Rows {
		popped[minuteOf{u.Rows[i].At.Unix(), u.Rows[i].Instance}] += u.Rows[i].PopMessages
	}
	found := make([]instanceRead, len(u.Instances))
	for i, r := range u.Instances {
		key := minuteOf{r.At.Unix(), r.ID}
		found[i] = instanceRead{r, popped[key]}
		delete(popped, key)
	}
	return found
}

// processRead is a row of a queue, with the host and the process id of its instance.
type processRead struct {
	row
	Hostname string `json:"hostname"`
	PID      int    `json:"pid"`
}

// processes returns the rows for the statement history/parked: the rows with a number of waiting requests.
func (u *unwritten) processes() []processRead {
	return u.withProcesses(func(r *row) bool { return r.Parked != nil })
}

// withProcesses returns the rows that match, with their processes.
func (u *unwritten) withProcesses(match func(*row) bool) []processRead {
	known := map[minuteOf]Instance{}
	for i := range u.Instances {
		known[minuteOf{u.Instances[i].At.Unix(), u.Instances[i].ID}] = u.Instances[i].Instance
	}
	found := []processRead{}
	for _, r := range u.Rows {
		if process, ok := known[minuteOf{r.At.Unix(), r.Instance}]; ok && match(&r) {
			found = append(found, processRead{r, process.Hostname, process.PID})
		}
	}
	return found
}

// unwrittenRows returns the rows of the current minute, as if the minute ended now. It adds the rows whose statement
// failed or has not ended. It returns at most the given number of rows for the current minute.
func (w *Writer) unwrittenRows(most int) unwritten {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := unwritten{Rows: w.unwritten[:len(w.unwritten):len(w.unwritten)], Instances: w.unwrittenInstances[:len(w.unwrittenInstances):len(w.unwrittenInstances)]}
	pending, worthwhile := w.counts.peek()
	m := w.rowsLocked(pending, worthwhile, nil, time.Now(), most)
	all.Rows, all.Instances = append(all.Rows, m.rows...), append(all.Instances, m.instance)
	return all
}

// Unwritten returns the unwritten rows for the Reader of another instance, in at most size bytes. If the rows do not fit,
// Unwritten sums the least busy queues as Other and leaves out the oldest rows. An idle instance has a row of its
// figures, so that others list it. It returns nil if w is nil.
func (w *Writer) Unwritten(size int) []byte {
	if w == nil {
		return nil
	}
	for most := maxRows; most > 0; most /= 2 {
		all, now := w.unwrittenRows(most), time.Now()
		all.Rows = newest(all.Rows, min(2*most, maxSent), now, func(r *row) time.Time { return r.At })
		all.Instances = newest(all.Instances, min(most, maxSentInstances), now, func(r *instanceRow) time.Time { return r.At })
		if text := encode(&all); len(text) <= size {
			return text
		}
	}
	return nil
}

// newest returns up to most rows from the end of rows. It leaves out the rows that decode skips. rows is in order of time.
func newest[T any](rows []T, most int, now time.Time, at func(*T) time.Time) []T {
	rows = rows[max(0, len(rows)-most):]
	for len(rows) > 0 && stale(at(&rows[0]), now) {
		rows = rows[1:]
	}
	return rows
}

// stale reports whether a row is too old for the Reader of another instance.
func stale(at, now time.Time) bool { return at.Before(now.Add(-maxAge)) }

func encode(all *unwritten) []byte {
	b := &bytes.Buffer{}
	packed, err := flate.NewWriter(b, flate.BestSpeed)
	if err == nil {
		err = json.NewEncoder(packed).Encode(all)
	}
	if err != nil || packed.Close() != nil { // cannot happen: a buffer accepts every write, and every row has a JSON form
		return nil
	}
	return b.Bytes()
}

// decode returns the rows that encode wrote at another instance. It leaves out rows that are too old. The other
// instance may run another version. After an error, the Reader uses no row of that instance.
func decode(text []byte, now time.Time) (all unwritten, err error) {
	// An array bounds the memory, because encoding/json skips elements beyond its length. If the last element is set,
	// there are too many rows.
	var heard struct {
		Rows      [maxSent + 1]row                  `json:"rows"`
		Instances [maxSentInstances + 1]instanceRow `json:"instances"`
	}
	if err := json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(text)), maxDecoded)).Decode(&heard); err != nil {
		return unwritten{}, fmt.Errorf("reading the counts of another instance: %w", err)
	}
	if !heard.Rows[maxSent].At.IsZero() || !heard.Instances[maxSentInstances].At.IsZero() {
		return unwritten{}, errors.New("reading the counts of another instance: there are more rows than an instance sends")
	}
	var sum Counts
	for i := range heard.Rows {
		r := &heard.Rows[i]
		if stale(r.At, now) { // also skips an empty element, whose time is zero
			continue
		}
		ok := usable(r.At, r.Minutes, r.Instance, now, r.Queue, r.Group) && r.within(maxCount) && r.hasHistogram() && (r.Parked == nil || *r.Parked >= 0 && *r.Parked <= math.MaxInt32)
		if sum.Add(&r.Counts); !ok || !sum.within(maxCount) {
			return unwritten{}, fmt.Errorf("reading the counts of another instance: the counts of the queue %q are not possible", r.Queue)
		}
		r.countedDepth = countedDepth{} // a read takes backlogs only from the table
		all.Rows = append(all.Rows, *r)
	}
	for i := range heard.Instances {
		r := &heard.Instances[i]
		if stale(r.At, now) {
			continue
		}
		if !usable(r.At, r.Minutes, r.ID, now, r.Hostname) || !r.possible() {
			return unwritten{}, fmt.Errorf("reading the counts of another instance: the figures of %q are not possible", r.Hostname)
		}
		all.Instances = append(all.Instances, *r)
	}
	return all, nil
}

// possible reports whether a process can have the figures of a row. Sums of larger figures could overflow in Postgres.
func (r *instanceRow) possible() bool {
	for _, percent := range []float64{r.CPUUser, r.CPUSystem} {
		if !(percent >= 0 && percent <= maxPercent) { // also refuses NaN
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

// usable reports whether Postgres can read a row, and whether the row starts at most clockAhead after now.
func usable(at time.Time, minutes int, instance string, now time.Time, texts ...string) bool {
	_, err := queue.ParseID(instance)
	return err == nil && minutes == 1 && !at.After(now.Add(clockAhead)) &&
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

// hasHistogram reports whether Latency.elements can return the latency of the row.
func (r *row) hasHistogram() bool {
	return r.Latency != nil && len(r.Latency) <= buckets && !slices.ContainsFunc(r.Latency, func(e int64) bool { return e < 0 || e >= buckets<<countBits })
}
