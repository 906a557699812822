package top

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/belfry-mq/belfry/pkg/client"
)

// These types are the messages to the model.
type (
	eventMsg   client.Event
	brokenMsg  struct{ err error } // the event stream has failed
	countsMsg  map[string]stored
	clockMsg   struct{} // a second has passed
	noticeMsg  string
	explainMsg []string
)

// mode decides the meaning of the keys.
type mode int

const (
	browsing  mode = iota
	filtering      // keys edit the filter
	asking         // y pauses or resumes the selected queue
	reading        // any key closes the explanation
)

// model is the state of the screen. Only the loop of bubbletea uses it.
type model struct {
	ctx    context.Context
	server *server
	name   string // name of the server in the title
	now    func() time.Time

	width, height int
	figures       *figures
	mode          mode
	order         int
	filter        string
	selected      string // name of the selected queue
	first         int    // index of the first row shown
	countsAt      time.Time
	broken        error
	notice        string
	explanation   []string
}

func newModel(ctx context.Context, s *server, name string, now func() time.Time) *model {
	return &model{ctx: ctx, server: s, name: name, now: now, width: 80, height: 24, figures: newFigures()}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.readCounts }

func (m *model) readCounts() tea.Msg {
	counts, err := m.server.counts(m.ctx)
	if err != nil {
		return noticeMsg(err.Error())
	}
	return countsMsg(counts)
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case clockMsg: // the screen is drawn again, without old rates
	case eventMsg:
		m.broken = nil
		event := client.Event(msg)
		if line := m.figures.take(&event, m.now()); line != "" {
			m.notice = line
		}
	case brokenMsg:
		m.broken = msg.err
	case countsMsg:
		m.figures.stored, m.countsAt = msg, m.now()
	case noticeMsg:
		m.notice = string(msg)
	case explainMsg:
		m.explanation, m.mode = msg, reading
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// key handles a key.
func (m *model) key(key tea.KeyPressMsg) tea.Cmd {
	if key.String() == "ctrl+c" {
		return tea.Quit
	}
	switch m.mode {
	case filtering:
		m.editFilter(key)
	case asking:
		m.mode, m.notice = browsing, ""
		if key.String() == "y" {
			return m.pause(m.selected)
		}
	case reading:
		m.mode = browsing
	case browsing:
		return m.browse(key.String())
	}
	return nil
}

func (m *model) editFilter(key tea.KeyPressMsg) {
	switch key.String() {
	case "enter":
		m.mode = browsing
	case "esc":
		m.mode, m.filter = browsing, ""
	case "backspace":
		if letters := []rune(m.filter); len(letters) > 0 {
			m.filter = string(letters[:len(letters)-1])
		}
	default:
		m.filter += key.Text
	}
}

func (m *model) browse(key string) tea.Cmd {
	switch key {
	case "q", "esc":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.tableHeight())
	case "pgdown", "space":
		m.move(m.tableHeight())
	case "home", "g":
		m.move(-1 << 30)
	case "s":
		m.order = (m.order + 1) % len(orders)
	case "/":
		m.mode = filtering
	case "r":
		m.notice = "reading the counts"
		return m.readCounts
	case "e", "enter":
		return m.explain(m.selected)
	case "p":
		if m.selected != "" {
			m.mode, m.notice = asking, fmt.Sprintf("%s the queue %q? y/n", m.pauseVerb(), m.selected)
		}
	}
	return nil
}

// move moves the selection by a number of rows.
func (m *model) move(by int) {
	rows, _ := m.rows()
	if len(rows) == 0 {
		return
	}
	m.selected = rows[min(max(0, m.index(rows)+by), len(rows)-1)].Queue
}

func (m *model) rows() ([]*row, rates) {
	return m.figures.rows(m.filter, orders[m.order].compare, m.now())
}

// index returns the index of the selected row, or 0.
func (m *model) index(rows []*row) int {
	for i, r := range rows {
		if r.Queue == m.selected {
			return i
		}
	}
	return 0
}

func (m *model) pauseVerb() string {
	if m.figures.stored[m.selected].Paused {
		return "resume"
	}
	return "pause"
}

func (m *model) pause(queue string) tea.Cmd {
	verb := m.pauseVerb()
	return func() tea.Msg {
		if err := m.server.pause(m.ctx, queue, verb); err != nil {
			return noticeMsg(err.Error())
		}
		return noticeMsg(fmt.Sprintf("queue %s: %sd", queue, verb))
	}
}

func (m *model) explain(queue string) tea.Cmd {
	if queue == "" {
		return nil
	}
	return func() tea.Msg {
		lines, err := m.server.explain(m.ctx, queue)
		if err != nil {
			return noticeMsg(err.Error())
		}
		return explainMsg(lines)
	}
}
