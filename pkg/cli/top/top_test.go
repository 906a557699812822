package top

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

// screen is a model with a clock that the test sets.
type screen struct {
	t  *testing.T
	at time.Time
	*model
}

func newScreen(t *testing.T) *screen {
	s := &screen{t: t, at: time.Date(2026, 5, 16, 8, 41, 27, 0, time.UTC)}
	s.model = newModel(context.Background(), nil, "http://localhost:6632", func() time.Time { return s.at })
	return s
}

// event sends an event of an instance to the screen.
func (s *screen) event(kind, instance, queue, data string) {
	s.Update(eventMsg(client.Event{Type: kind, At: s.at, Instance: instance, Queue: queue, Data: json.RawMessage(data)}))
}

// lines returns the lines of the screen, with one space between columns.
func (s *screen) lines() []string {
	lines := strings.Split(ansi.Strip(s.View().Content), "\n")
	require.Len(s.t, lines, s.height)
	for i, line := range lines {
		require.LessOrEqual(s.t, ansi.StringWidth(line), s.width, line)
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return lines
}

func (s *screen) press(keys ...string) {
	for _, key := range keys {
		msg := tea.KeyPressMsg{Text: key, Code: rune(key[0])}
		if key == "enter" {
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		}
		s.Update(msg)
	}
}

const twoInstances = `{"instances": [{"id": "a", "host": "one", "listener": "proven", "sequencer": true, "waiting": 3}, {"id": "b", "host": "two", "listener": "lost", "waiting": 4}],
	"queues": [{"queue": "orders", "waiting": 3}], "lag": [{"queue": "late", "group": "g", "beyond": true, "seconds": 600}],
	"deadLetters": [{"queue": "late", "group": "g", "beyond": true, "threshold": 1}]}`

// The screen shows the sum of the figures of all instances. It drops old rates, and keeps the number of waiting
// requests.
func TestScreenShowsTheSumOfInstances(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	require.Contains(t, s.lines()[2], "connecting")
	s.event("snapshot", "a", "", twoInstances)
	s.event("rates", "a", "", `{"queues": [{"queue": "orders", "pushed": 10, "delivered": 20, "acked": 4.5, "failed": 1, "waiting": 5}]}`)
	s.event("rates", "b", "", `{"queues": [{"queue": "orders", "pushed": 200000, "waiting": 4}], "instance": {"id": "b", "host": "two", "listener": "proven", "waiting": 4}}`)
	s.Update(countsMsg{"orders": {Pending: 7, Dead: 2}})
	require.Equal(t, []string{
		"belfry top http://localhost:6632 08:41:27",
		"pushed 200k/s delivered 20/s acknowledged 4.5/s failed 1.0/s waiting 7",
		"instances 2: one listener proven sequencer, two listener proven",
		"QUEUE PUSH/S OUT/S ACK/S FAIL/S WAIT PENDING DEAD LAG",
		"orders 200k 20 4.5 1.0 9 7 2 -",
		"late 0 0 0 0 0 - -! 10m",
	}, s.lines()[:6])
	s.at = s.at.Add(time.Minute)
	require.Equal(t, []string{"late 0 0 0 0 0 - -! 11m", "orders 0 0 0 0 9 7 2 -"}, s.lines()[4:6])
	s.event("lag", "", "late", `{"queue": "late", "group": "g", "beyond": false}`)
	s.event("queue.deleted", "", "orders", "")
	require.Equal(t, []string{"late 0 0 0 0 0 - -! -", ""}, s.lines()[4:6])
	s.event("instance", "b", "", `{"state": "left"}`)
	require.Contains(t, s.lines()[2], "instances 1:")
}

func TestKeysSortFilterAndMove(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	counts := countsMsg{}
	for _, name := range []string{"a", "b", "c-1", "c-2", "long-" + strings.Repeat("x", 200), "bell\x07"} {
		counts[name] = stored{Pending: int64(len(counts))}
	}
	s.height = 9 // three rows
	s.Update(counts)
	require.Equal(t, "a 0 0 0 0 0 0 0 -", s.lines()[4])
	s.press("j", "j", "j")
	require.Equal(t, []string{"b 0 0 0 0 0 1 0 -", "bell· 0 0 0 0 0 5 0 -", "c-1 0 0 0 0 0 2 0 -"}, s.lines()[4:7], "the selected row is visible")
	require.Equal(t, "c-1", s.selected)
	s.press("s", "s", "s")
	require.Contains(t, s.lines()[8], "s sort: pending")
	s.press("g")
	require.Equal(t, "bell\x07", s.selected)
	s.press("/", "C", "-", "2", "enter")
	require.Equal(t, "c-2 0 0 0 0 0 3 0 -", s.lines()[4])
	require.Equal(t, "filter: C-2", s.lines()[7])
	s.press("p")
	require.Equal(t, `pause the queue "c-2"? y/n`, s.lines()[7])
	s.press("n")
	require.Equal(t, browsing, s.mode)
	_, quit := s.Update(tea.KeyPressMsg{Text: "q", Code: 'q'})
	require.NotNil(t, quit)
}
