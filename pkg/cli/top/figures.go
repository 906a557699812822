package top

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// rateAge is the time for which the last rates of an instance are shown. An idle instance sends no rates.
const rateAge = 2500 * time.Millisecond

// rates has the rates of one queue in messages per second.
type rates struct{ api.QueueRates }

func (r *rates) add(other api.QueueRates) {
	r.Pushed += other.Pushed
	r.Delivered += other.Delivered
	r.Acked += other.Acked
	r.Failed += other.Failed
}

// member is the state of one instance.
type member struct {
	api.Instance
	rates   map[string]api.QueueRates // of the last second
	at      time.Time                 // time when rates arrived
	waiting map[string]int
}

// groupKey identifies a consumer group of a queue.
type groupKey struct{ queue, group string }

// stored has counts that are read from the database.
type stored struct {
	Pending int64
	Dead    int64
	Paused  bool
}

// row has the figures of one queue on the screen.
type row struct {
	rates
	stored
	known bool // stored was read
	// lateSince is the push time of the oldest message that a late group has not finished. It is zero if no group is
	// late.
	lateSince time.Time
	// manyDead means that a group has more dead letters than the threshold.
	manyDead bool
}

// figures is the state that the events describe. One goroutine uses it.
type figures struct {
	members     map[string]*member
	order       []string // ids of members; the first serves the stream
	late        map[groupKey]time.Time
	dead        map[groupKey]bool
	maintenance api.Switches
	stored      map[string]stored
}

func newFigures() *figures {
	return &figures{members: map[string]*member{}, late: map[groupKey]time.Time{}, dead: map[groupKey]bool{}, stored: map[string]stored{}}
}

// take updates the figures with an event. It returns a line for people, or "".
func (f *figures) take(e *client.Event, now time.Time) string {
	switch e.Type {
	case "snapshot":
		f.snapshot(e, now)
	case "rates":
		f.takeRates(e, now)
	case "lag", "dead_letters":
		var data api.LateGroup // Seconds is 0 for dead letters
		if json.Unmarshal(e.Data, &data) == nil {
			f.threshold(e.Type, &data, e.At)
		}
	case "maintenance":
		_ = json.Unmarshal(e.Data, &f.maintenance) // ignores data of an unknown form from a newer server
	case "listener":
		var data api.ListenerChange
		if m := f.members[e.Instance]; m != nil && json.Unmarshal(e.Data, &data) == nil {
			m.Listener = data.State
		}
	case "sequencer":
		var data api.SequencerChange
		if m := f.members[e.Instance]; m != nil && json.Unmarshal(e.Data, &data) == nil {
			m.Sequencer = data.Leading
		}
	case "instance":
		f.instanceChanged(e)
	case "queue.created":
		f.stored[e.Queue] = stored{}
	case "queue.paused", "queue.resumed":
		if e.Partition == "" {
			known := f.stored[e.Queue]
			known.Paused = e.Type == "queue.paused"
			f.stored[e.Queue] = known
		}
	case "queue.deleted":
		f.forget(e.Queue)
	default:
		return ""
	}
	return f.line(e)
}

// line returns a line for people about a change of a queue or partition, or "".
func (f *figures) line(e *client.Event) string {
	verb, found := strings.CutPrefix(e.Type, "queue.")
	switch {
	case found && e.Partition != "":
		return "partition " + e.Partition + " of " + e.Queue + " " + verb
	case found:
		return "queue " + e.Queue + " " + verb
	}
	return ""
}

func (f *figures) threshold(kind string, data *api.LateGroup, at time.Time) {
	key := groupKey{data.Queue, data.Group}
	switch {
	case kind == "lag" && data.Beyond:
		f.late[key] = at.Add(-time.Duration(data.Seconds * float64(time.Second)))
	case kind == "lag":
		delete(f.late, key)
	case data.Beyond:
		f.dead[key] = true
	default:
		delete(f.dead, key)
	}
}

func (f *figures) snapshot(e *client.Event, now time.Time) {
	var data api.Snapshot
	if json.Unmarshal(e.Data, &data) != nil {
		return
	}
	clear(f.members)
	clear(f.late)
	clear(f.dead)
	f.order = nil
	for _, one := range data.Instances {
		f.member(one.ID, now).Instance = one
	}
	if len(data.Instances) == 0 { // the token may not list instances
		f.member("", now)
	}
	for _, q := range data.Queues { // queues of the instance that serves the stream
		f.members[f.order[0]].waiting[q.Queue] = q.Waiting
	}
	for i := range data.Lag {
		f.threshold("lag", &data.Lag[i], e.At)
	}
	for i := range data.DeadLetters {
		one := &data.DeadLetters[i]
		f.threshold("dead_letters", &api.LateGroup{Queue: one.Queue, Group: one.Group, Beyond: one.Beyond}, e.At)
	}
	if data.Maintenance != nil {
		f.maintenance = *data.Maintenance
	}
}

// member returns a member, and adds it if it does not exist.
func (f *figures) member(id string, now time.Time) *member {
	m := f.members[id]
	if m == nil {
		m = &member{Instance: api.Instance{ID: id}, at: now, waiting: map[string]int{}}
		f.members[id] = m
		f.order = append(f.order, id)
	}
	return m
}

func (f *figures) takeRates(e *client.Event, now time.Time) {
	var data api.Rates
	if json.Unmarshal(e.Data, &data) != nil {
		return
	}
	m := f.member(e.Instance, now)
	if data.Instance != nil {
		m.Instance = *data.Instance
	}
	m.rates, m.at = map[string]api.QueueRates{}, now
	for _, r := range data.Queues {
		m.rates[r.Queue], m.waiting[r.Queue] = r, r.Waiting
	}
}

func (f *figures) instanceChanged(e *client.Event) {
	var data api.InstanceChange
	if json.Unmarshal(e.Data, &data) != nil {
		return
	}
	if data.State == "left" {
		delete(f.members, e.Instance)
		f.order = slices.DeleteFunc(f.order, func(id string) bool { return id == e.Instance })
		return
	}
	f.member(e.Instance, e.At).Host = data.Host
}

// forget removes a deleted queue.
func (f *figures) forget(queue string) {
	delete(f.stored, queue)
	for _, m := range f.members {
		delete(m.rates, queue)
		delete(m.waiting, queue)
	}
	for key := range f.late {
		if key.queue == queue {
			delete(f.late, key)
		}
	}
	for key := range f.dead {
		if key.queue == queue {
			delete(f.dead, key)
		}
	}
}

// rows returns the queues whose names contain filter, sorted by order, and the sum of the rates of all queues.
func (f *figures) rows(filter string, order func(a, b *row) int, now time.Time) (shown []*row, sum rates) {
	all := map[string]*row{}
	of := func(name string) *row {
		r := all[name]
		if r == nil {
			r = &row{rates: rates{api.QueueRates{Queue: name}}}
			r.stored, r.known = f.stored[name], false
			_, r.known = f.stored[name]
			all[name] = r
		}
		return r
	}
	for name := range f.stored {
		of(name)
	}
	for _, m := range f.members {
		for name, n := range m.waiting {
			of(name).Waiting += n
		}
		if now.Sub(m.at) > rateAge {
			continue
		}
		for name, r := range m.rates {
			of(name).add(r)
			sum.add(r)
		}
	}
	for key, since := range f.late {
		if r := of(key.queue); r.lateSince.IsZero() || since.Before(r.lateSince) {
			r.lateSince = since
		}
	}
	for key := range f.dead {
		of(key.queue).manyDead = true
	}
	for _, id := range f.order {
		sum.Waiting += f.members[id].Waiting
	}
	for _, r := range all {
		if strings.Contains(strings.ToLower(r.Queue), strings.ToLower(filter)) {
			shown = append(shown, r)
		}
	}
	slices.SortFunc(shown, func(a, b *row) int { return cmp.Or(order(a, b), strings.Compare(a.Queue, b.Queue)) })
	return shown, sum
}
