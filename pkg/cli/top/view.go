package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/belfry-mq/belfry/pkg/cli/output"
)

const (
	headLines = 4 // lines above the rows
	footLines = 2 // lines below the rows
	// numbers is the width of all columns except the name.
	numbers   = 60
	leastName = 8
)

// tableHeight returns the number of rows that fit on the screen.
func (m *model) tableHeight() int { return max(1, m.height-headLines-footLines) }

// View implements tea.Model.
func (m *model) View() tea.View {
	rows, sum := m.rows()
	lines := []string{m.title(), m.totals(sum), m.state(), bold(m.header())}
	if m.mode == reading {
		lines = append(lines[:3], m.explained()...)
	} else {
		lines = append(lines, m.table(rows)...)
	}
	for len(lines) < m.height-footLines {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, m.height-footLines)], m.message(), m.keys())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	view := tea.NewView(strings.Join(lines, "\n"))
	view.AltScreen, view.WindowTitle = true, "belfry top"
	return view
}

func (m *model) title() string {
	right := m.now().Format(time.TimeOnly)
	left := "belfry top  " + m.name
	return bold(ansi.Truncate(left, max(0, m.width-len(right)-1), "…")) + strings.Repeat(" ", max(1, m.width-ansi.StringWidth(left)-len(right))) + right
}

func (m *model) totals(sum rates) string {
	return fmt.Sprintf("pushed %s/s  delivered %s/s  acknowledged %s/s  failed %s/s  waiting %d",
		rate(sum.Pushed), rate(sum.Delivered), rate(sum.Acked), rate(sum.Failed), sum.Waiting)
}

// state returns the line with the instances. It shows problems in red.
func (m *model) state() string {
	if m.broken != nil {
		return red("no connection: " + m.broken.Error())
	}
	var parts []string
	for _, id := range m.figures.order {
		one := m.figures.members[id]
		if one.Listener == "" {
			continue
		}
		text := output.Clean(one.Host) + " listener " + one.Listener
		if one.Sequencer {
			text += " sequencer"
		}
		if one.Listener != "proven" {
			text = red(text)
		}
		parts = append(parts, text)
	}
	if m.figures.maintenance.Push {
		parts = append([]string{red("push maintenance")}, parts...)
	}
	if m.figures.maintenance.Pop {
		parts = append([]string{red("pop maintenance")}, parts...)
	}
	if len(parts) == 0 {
		return "connecting"
	}
	return fmt.Sprintf("instances %d: %s", len(m.figures.order), strings.Join(parts, ", "))
}

func (m *model) nameWidth() int { return max(leastName, m.width-numbers) }

func (m *model) header() string {
	return fmt.Sprintf("%-*s%8s%8s%8s%7s%7s%9s%7s%6s", m.nameWidth(), "QUEUE", "PUSH/S", "OUT/S", "ACK/S", "FAIL/S", "WAIT", "PENDING", "DEAD", "LAG")
}

// table returns the rows that fit on the screen. The selected row is always visible.
func (m *model) table(rows []*row) (lines []string) {
	if len(rows) == 0 {
		return []string{"", "There is no queue yet. The first push creates a queue:", "", "  belfry push orders '{\"id\": 1}'"}
	}
	selected, height := m.index(rows), m.tableHeight()
	m.selected = rows[selected].Queue
	m.first = min(max(m.first, selected-height+1), selected, max(0, len(rows)-height))
	for i := m.first; i < min(len(rows), m.first+height); i++ {
		line := m.line(rows[i])
		if i == selected {
			line = reversed(line)
		}
		lines = append(lines, line)
	}
	return lines
}

func (m *model) line(r *row) string {
	width := m.nameWidth()
	name := output.Clean(r.Queue)
	if r.Paused {
		name = "(paused) " + name
	}
	name = ansi.Truncate(name, width-1, "…")
	name += strings.Repeat(" ", width-ansi.StringWidth(name))
	pending, dead := "-", "-"
	if r.known {
		pending, dead = fmt.Sprint(r.Pending), fmt.Sprint(r.Dead)
	}
	if r.manyDead {
		dead += "!"
	}
	lag := "-"
	if !r.lateSince.IsZero() {
		lag = output.Short(m.now().Sub(r.lateSince))
	}
	return name + fmt.Sprintf("%8s%8s%8s%7s%7d%9s%7s%6s", rate(r.Pushed), rate(r.Delivered), rate(r.Acked), rate(r.Failed), r.Waiting, pending, dead, lag)
}

func (m *model) explained() []string {
	lines := []string{bold("Queue " + output.Clean(m.selected)), ""}
	for _, text := range m.explanation {
		lines = append(lines, strings.Split(ansi.Wrap(output.Clean(text), m.width, ""), "\n")...)
		lines = append(lines, "")
	}
	return lines
}

// message returns the line for questions and notices.
func (m *model) message() string {
	switch {
	case m.mode == filtering:
		return "filter: " + m.filter + "_"
	case m.notice != "":
		return output.Clean(m.notice)
	case m.filter != "":
		return "filter: " + m.filter
	}
	return ""
}

func (m *model) keys() string {
	switch m.mode {
	case filtering:
		return "enter keep  esc clear"
	case asking:
		return "y yes  n no"
	case reading:
		return "any key returns"
	case browsing:
	}
	text := "q quit  s sort: " + orders[m.order].name + "  / filter  e explain  p " + m.pauseVerb() + "  r counts"
	if !m.countsAt.IsZero() {
		text += " (" + output.Short(m.now().Sub(m.countsAt)) + ")"
	}
	return text
}

// rate returns a rate in messages per second as text.
func rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 9.95:
		return fmt.Sprintf("%.1f", perSecond)
	case perSecond < 99_999.5:
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.0fk", perSecond/1000)
}

func bold(text string) string     { return "\x1b[1m" + text + "\x1b[m" }
func red(text string) string      { return "\x1b[31m" + text + "\x1b[m" }
func reversed(text string) string { return "\x1b[7m" + text + "\x1b[m" }
