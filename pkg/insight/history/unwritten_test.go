package history

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// counted is the sum of the Reader's answers about the queue q.
type counted struct {
	pushed, delivered, byQueue, waiting, popped, processes int64
	p50                                                    time.Duration
}

// count reads all parts of the history of the last ten minutes and of the next five minutes, which a test may start.
func (r *Reader) count(t *testing.T) (c counted) {
	t.Helper()
	now, f := time.Now().UTC(), Filter{Allowed: []string{"q"}}
	span := Range{From: now.Add(-10 * time.Minute).Truncate(time.Minute), To: now.Add(5 * time.Minute), Bucket: time.Minute}
	sums, err := r.Sums(t.Context(), span, f)
	require.NoError(t, err)
	for _, b := range sums {
		c.pushed, c.delivered = c.pushed+b.PushMessages, c.delivered+b.PopMessages
	}
	queues, err := r.Queues(t.Context(), span, f)
	require.NoError(t, err)
	for _, b := range queues {
		require.Equal(t, "q", b.Queue)
		c.byQueue += b.PushMessages
	}
	percentiles, err := r.Percentiles(t.Context(), span, f, false)
	require.NoError(t, err)
	c.p50 = percentiles[At{Queue: "q"}].P50.Truncate(time.Second)
	parked, err := r.Parked(t.Context(), span, f)
	require.NoError(t, err)
	for _, p := range parked {
		require.Equal(t, "host", p.Hostname)
		c.waiting = max(c.waiting, p.Count)
	}
	instances, err := r.Instances(t.Context(), span, nil, nil)
	require.NoError(t, err)
	for _, i := range instances {
		require.InDelta(t, 3, i.PoolSize[3], 0)
		c.popped, c.processes = c.popped+i.Popped, c.processes+i.Samples
	}
	return c
}

// Every answer of both instances counts the unwritten rows of both instances exactly once. The test checks this before
// the end of the minute, while a statement writes, after a failed statement, after a lost answer and in the next minute.
func TestUnwrittenRowsAreInEveryAnswer(t *testing.T) {
	pool := openPool(t)
	a, countsA := newWriter(pool)
	b, countsB := newWriter(pool)
	waiting := map[Key]int64{}
	a.sources.Parked = func() map[Key]int64 { return waiting }
	others := func(w *Writer) OthersFunc {
		return func(context.Context) [][]byte { return [][]byte{w.Unwritten(5000)} }
	}
	readers := []*Reader{NewReader(pool, a, others(b)), NewReader(pool, b, others(a))}
	is := func(want counted) {
		t.Helper()
		for _, r := range readers {
			require.Equal(t, want, r.count(t))
		}
	}
	is(counted{processes: 2}) // both are idle

	push := func(r *Recorder, n int) { r.Pushed(pushes(n), make([]queue.PushResult, n)) }
	push(countsA, 3)
	deliver := func(r *Recorder, ages ...time.Duration) {
		for _, age := range ages {
			now := time.Now()
			r.Delivered(&queue.Delivery{Group: "g", DatabaseNow: now, ReceivedAt: now, Messages: []queue.Message{
				{Partition: &queue.Partition{Queue: "q"}, CreatedAt: now.Add(-age), Attempt: 1}}})
		}
	}
	is(counted{pushed: 3, byQueue: 3, processes: 2})
	deliver(countsA, 4*time.Second, 4*time.Second) // the median is 4 s only if these two count twice
	push(countsB, 4)
	countsB.Pushed([]queue.PushItem{{Queue: "another"}}, make([]queue.PushResult, 1))
	deliver(countsB, time.Second, time.Second, time.Second)
	waiting = map[Key]int64{{"q", "g"}: 9}
	want := counted{pushed: 7, delivered: 5, byQueue: 7, p50: time.Second, waiting: 9, popped: 5, processes: 2}
	is(want)

	write := a.write
	for _, lost := range []error{errors.New("the database is unavailable"), nil} {
		a.write = func(ctx context.Context, queues, instances string) error {
			want.processes++ // the next minute of the instance
			is(want)         // the statement is still writing the rows
			push(countsA, 1)
			deliver(countsA, time.Second)
			want.pushed, want.byQueue, want.delivered, want.popped = want.pushed+1, want.byQueue+1, want.delivered+1, want.popped+1
			is(want) // the new counts belong to the next minute
			if lost != nil {
				return lost
			}
			require.NoError(t, write(ctx, queues, instances))
			is(want) // the rows are in the database, but the instance has no answer yet
			return errors.New("the answer is lost")
		}
		a.flush(t.Context(), nil, true)
		is(want)
	}
	push(countsA, 2)
	want.pushed, want.byQueue = want.pushed+2, want.byQueue+2
	a.begin(a.minute.Add(time.Minute), false)
	is(want)
	a.write = write
	a.flush(t.Context(), nil, true)
	b.flush(t.Context(), nil, true)
	want.processes += 2
	is(want)
	require.Empty(t, a.unwrittenRows(maxRows).Rows)
	require.Empty(t, b.unwrittenRows(maxRows).Rows)
}

func pushes(n int) []queue.PushItem {
	items := make([]queue.PushItem, n)
	for i := range items {
		items[i].Queue = "q"
	}
	return items
}

// If the rows do not fit into one notification, the instance sends the busiest queues and the sum of all others. The
// total is exact.
func TestTheRowsForOtherInstancesAreBounded(t *testing.T) {
	w, counts := newWriter(nil)
	for i := range 3000 {
		counts.Pushed([]queue.PushItem{{Queue: fmt.Sprintf("queue %d of the shop", i)}}, make([]queue.PushResult, 1))
	}
	counts.Pushed(pushes(5), make([]queue.PushResult, 5))
	for _, size := range []int{5600, 2000, 1000} {
		text := w.Unwritten(size)
		require.LessOrEqual(t, len(text), size)
		all, err := decode(text, time.Now())
		require.NoError(t, err)
		sum := map[string]int64{}
		for _, r := range all.Rows {
			sum[""] += r.PushMessages
			sum[r.Queue] = r.PushMessages
		}
		t.Logf("%d bytes carry %d queues", size, len(all.Rows))
		require.EqualValues(t, 3005, sum[""])
		require.EqualValues(t, 5, sum["q"])
		require.EqualValues(t, 3001-len(all.Rows), sum[Other]-1)
	}
}

// decode refuses a forged answer that Postgres would refuse, or that would break the answers of the Reader.
func TestForgedRowsAreRefused(t *testing.T) {
	pool := openPool(t)
	w, counts := newWriter(pool)
	counts.Pushed(pushes(1), make([]queue.PushResult, 1))
	now := time.Now()
	counts.Delivered(&queue.Delivery{Group: "g", DatabaseNow: now, ReceivedAt: now, Messages: []queue.Message{
		{Partition: &queue.Partition{Queue: "q"}, CreatedAt: now.Add(-time.Second), Attempt: 1}}})
	text := w.Unwritten(5000)
	_, err := decode(text, now)
	require.NoError(t, err)
	plain := unpack(t, text)
	minute := w.minute.Format(time.RFC3339)
	forged := [][]byte{nil, []byte("garbage"), pack(t, plain[:100]), pack(t, "["+strings.Repeat(" ", 1<<22))}
	for _, change := range [][2]string{
		{`"queue":"q"`, `"queue":"\u0000"`}, {`"consumer_group":"g"`, `"consumer_group":"\u0000"`}, {`"hostname":"host"`, `"hostname":"\u0000"`},
		{`"push_messages":1`, `"push_messages":-1`}, {`"push_messages":1`, `"push_messages":9223372036854775807`}, {`"minutes":1`, `"minutes":7`},
		{`"lag_sum":1`, `"lag_sum":8000000000000000000`},
		{minute, "9999-01-01T00:00:00Z"},
		{w.sources.Instance.ID, "me"}, {`"latency":[]`, `"latency":null`}, {`"latency":[`, `"latency":[-1,`}, {`"latency":[`, `"latency":[9000000000000000000,`},
		{`"parked":null`, `"parked":-5`}, {`"db_errors":0`, `"db_errors":9223372036854775807`},
	} {
		require.Contains(t, plain, change[0])
		forged = append(forged, pack(t, strings.ReplaceAll(plain, change[0], change[1])))
	}
	for i, text := range forged {
		_, err := decode(text, now)
		require.Error(t, err, "%d", i)
		r := NewReader(pool, w, func(context.Context) [][]byte { return [][]byte{text} })
		require.EqualValues(t, 1, r.count(t).pushed)
	}
}

// An instance that cannot write for hours sends its newest rows. The receiver skips each row that is older than maxAge, and
// uses the others.
func TestTheRowsOfALongOutageAreNotLost(t *testing.T) {
	w, counts := newWriter(nil)
	for age := 3 * time.Hour; age > 0; age -= time.Minute {
		at := w.minute.Add(-age)
		w.unwritten = append(w.unwritten, row{At: at, Minutes: 1, Instance: w.sources.Instance.ID, Queue: "old", Latency: []int64{}, Counts: Counts{PushMessages: 1}})
		w.unwrittenInstances = append(w.unwrittenInstances, instanceRow{At: at, Minutes: 1, Instance: w.sources.Instance, Figures: Figures{RSSBytes: int64(age)}})
	}
	counts.Pushed(pushes(5), make([]queue.PushResult, 5))
	text := w.Unwritten(5600)
	for _, later := range []time.Duration{0, 30 * time.Minute} {
		now := time.Now().Add(later)
		all, err := decode(text, now)
		require.NoError(t, err, later)
		require.InDelta(t, (maxAge-later)/time.Minute, len(all.Rows), 2)
		require.Equal(t, "q", all.Rows[len(all.Rows)-1].Queue)
		require.LessOrEqual(t, now.Sub(all.Rows[0].At), maxAge)
		require.Len(t, all.Instances, maxSentInstances)
		require.True(t, w.minute.Equal(all.Instances[maxSentInstances-1].At))
	}
	all, err := decode(text, time.Now().Add(2*maxAge))
	require.NoError(t, err)
	require.Empty(t, all.Rows)
	require.Empty(t, all.Instances)
	require.Len(t, w.unwritten, 180, "the Writer still has to write all rows")
}

// A short compressed text can contain very many rows. decode refuses more rows than an instance sends.
func TestMoreRowsThanAnInstanceSendsAreRefused(t *testing.T) {
	w, counts := newWriter(nil)
	counts.Pushed(pushes(1), make([]queue.PushResult, 1))
	sent := w.unwrittenRows(maxRows)
	for _, more := range []int{0, 1, 100} {
		forged := []unwritten{
			{Rows: slices.Repeat(sent.Rows, maxSent+more), Instances: sent.Instances},
			{Rows: sent.Rows, Instances: slices.Repeat(sent.Instances, maxSentInstances+more)},
		}
		for i := range forged {
			_, err := decode(encode(&forged[i]), time.Now())
			require.Equal(t, more > 0, err != nil, "%d: %v", more, err)
		}
	}
	packed := pack(t, `{"rows":[`+strings.Repeat("{},", 300_000)+`{}]}`)
	require.Less(t, len(packed), 5600)
	all, err := decode(packed, time.Now())
	require.NoError(t, err)
	require.Empty(t, all.Rows)
}

// Each statement parses the JSON of the unwritten rows once, not once per row.
func TestUnwrittenRowsAreReadOnce(t *testing.T) {
	pool := openPool(t)
	w, _ := newWriter(pool)
	waiting := int64(1)
	w.sources.Parked = func() map[Key]int64 {
		waiting *= 2
		all := map[Key]int64{}
		for i := range 50 {
			all[Key{Queue: fmt.Sprint(i)}] = waiting
		}
		return all
	}
	for range 20 {
		w.collect(nil)
		w.begin(w.minute.Add(time.Minute), false)
	}
	all := NewReader(pool, w, nil).unwritten(t.Context(), Range{})
	require.Len(t, all.processes(), len(all.Rows))
	text := func(text string, err error) string {
		require.NoError(t, err)
		return text
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for name, args := range map[string][]any{
		sqlSeries:    {from, to, 60, nil, nil, nil, nil, nil, true, 100, text(marshal(all.Rows))},
		sqlLatency:   {from, to, 60, nil, nil, nil, text(marshal(all.Rows))},
		sqlParked:    {from, to, nil, nil, nil, 1000, text(marshal(all.processes()))},
		sqlInstances: {from, to, 60, nil, nil, text(marshal(all.instances()))},
	} {
		found, err := pool.Query(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF) "+name, args...)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(found, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(plan, "\n")
		require.Contains(t, text, "Function Scan on json_")
		require.NotRegexp(t, `(Function Scan on json_|Subquery Scan|CTE Scan).*loops=([2-9]|\d\d)`, text)
	}
}

// decode refuses a figure that no process can have, because the mean of two such figures may overflow in Postgres.
func TestForgedFiguresAreRefused(t *testing.T) {
	w, counts := newWriter(nil)
	counts.Pushed(pushes(1), make([]queue.PushResult, 1))
	text := w.Unwritten(5000)
	_, err := decode(text, time.Now())
	require.NoError(t, err)
	names := []string{"port", "pid", "db_errors"}
	figures := reflect.TypeFor[Figures]()
	for i := range figures.NumField() {
		names = append(names, figures.Field(i).Tag.Get("json"))
	}
	plain := unpack(t, text)
	for _, name := range names {
		figure := regexp.MustCompile(`"` + name + `":[^,}]+`)
		require.Regexp(t, figure, plain)
		for _, forged := range []string{"-1", "1000000000000000000"} {
			_, err := decode(pack(t, figure.ReplaceAllString(plain, `"`+name+`":`+forged)), time.Now())
			require.ErrorContains(t, err, "not possible", "%s: %s", name, forged)
		}
	}
	for _, name := range []string{"cpu_user", "cpu_system"} {
		figure := regexp.MustCompile(`"` + name + `":[^,}]+`)
		_, err := decode(pack(t, figure.ReplaceAllString(plain, `"`+name+`":1e308`)), time.Now())
		require.ErrorContains(t, err, "not possible", name)
	}
}

func pack(t *testing.T, text string) []byte {
	t.Helper()
	b := &bytes.Buffer{}
	packed, err := flate.NewWriter(b, flate.BestSpeed)
	require.NoError(t, err)
	_, err = packed.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, packed.Close())
	return b.Bytes()
}

func unpack(t *testing.T, text []byte) string {
	t.Helper()
	b := &bytes.Buffer{}
	_, err := b.ReadFrom(flate.NewReader(bytes.NewReader(text)))
	require.NoError(t, err)
	return b.String()
}
