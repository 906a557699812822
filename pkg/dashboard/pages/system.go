package pages

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// maxTables is how many tables of Postgres the page lists. It also bounds the instances.
const maxTables = 30

type systemData struct {
	// Doctor is nil if the caller may not run the doctor, or if the server has no such route.
	Doctor    *api.Examination
	Instances []instance
	// Postgres is nil for a caller with grants.
	Postgres *api.Postgres
	Tables   []table
}

// instance is a process of the last hour.
type instance struct {
	Host, PID string
	Port      int64
	// CPU is the percentage of one core.
	CPU                           float64
	Memory, Connections, PoolSize int64
	LastSeen                      time.Time
}

// table is a table of Postgres.
type table struct {
	Name              string
	Bytes, IndexBytes int64
	Live, Dead        int64
	// Hot is the percentage of updates that changed no index, or -1 if there was no update.
	Hot      float64
	Vacuumed *time.Time
}

// DeadShare returns the percentage of dead rows.
func (t *table) DeadShare() int64 {
	if t.Live+t.Dead == 0 {
		return 0
	}
	return t.Dead * 100 / (t.Live + t.Dead)
}

// may reads an answer. It returns nil if the caller may not see the answer, or if the server has no such route.
func may[T any](r *page.Request, path string) (*T, error) {
	found, err := source.Read[T](r.Ctx, r.Client, r.Caller, path)
	if source.IsStatus(err, http.StatusForbidden) || source.IsStatus(err, http.StatusNotFound) {
		return nil, nil //nolint:nilnil // nil means no answer for this caller
	}
	return found, err
}

// system shows the instances, Postgres and the findings of the doctor. The page has no stream of changes, because each
// load runs the doctor.
func system(r *page.Request) (*page.Content, error) {
	d := &systemData{}
	var err error
	if r.Can.SeeAdmin() && r.Can.SeeAll() {
		if d.Doctor, err = may[api.Examination](r, "/api/v1/doctor"); err != nil {
			return nil, err
		}
	}
	processes, err := may[api.SystemMetrics](r, "/api/v1/analytics/system-metrics")
	if err != nil {
		return nil, err
	}
	if d.Postgres, err = may[api.Postgres](r, "/api/v1/analytics/postgres-stats"); err != nil {
		return nil, err
	}
	d.listInstances(processes)
	d.listTables()
	return &page.Content{Title: "Instances and Postgres", Data: d, Commands: []page.Command{
		r.Get("Examine the server and the database", "/api/v1/doctor", "doctor"),
		r.Get("Show the statistics of Postgres", "/api/v1/analytics/postgres-stats"),
	}}, nil
}

// Findings returns the findings that are not ok, the worst first.
func (d *systemData) Findings() []api.Finding {
	rank := map[string]int{"wrong": 3, "warning": 2, "unknown": 1}
	found := slices.DeleteFunc(slices.Clone(d.Doctor.Checks), func(f api.Finding) bool { return f.Result == "ok" })
	slices.SortStableFunc(found, func(a, b api.Finding) int { return cmp.Compare(rank[b.Result], rank[a.Result]) })
	return found
}

// Fine returns the findings that are ok.
func (d *systemData) Fine() []api.Finding {
	return slices.DeleteFunc(slices.Clone(d.Doctor.Checks), func(f api.Finding) bool { return f.Result != "ok" })
}

func (d *systemData) listInstances(found *api.SystemMetrics) {
	if found == nil {
		return
	}
	for i := range found.Replicas {
		p := &found.Replicas[i]
		one := instance{Host: p.Hostname, PID: p.WorkerID, Port: p.Port}
		for j := range p.TimeSeries {
			at := &p.TimeSeries[j]
			if at.Timestamp.After(one.LastSeen) {
				m := &at.Metrics
				one.LastSeen, one.CPU, one.Memory = at.Timestamp.Time, (m.CPU.UserUs.Avg+m.CPU.SystemUs.Avg)/100, int64(m.Memory.RSSBytes.Last)
				one.Connections, one.PoolSize = int64(m.Database.PoolActive.Max), int64(m.Database.PoolSize.Last)
			}
		}
		d.Instances = append(d.Instances, one)
	}
	slices.SortFunc(d.Instances, func(a, b instance) int { return b.LastSeen.Compare(a.LastSeen) })
	d.Instances = d.Instances[:min(len(d.Instances), maxTables)]
}

func (d *systemData) listTables() {
	if d.Postgres == nil {
		return
	}
	all := map[string]*table{}
	of := func(name string) *table {
		if all[name] == nil {
			all[name] = &table{Name: name, Hot: -1}
		}
		return all[name]
	}
	for _, t := range d.Postgres.TableSizes {
		of(t.Table).Bytes, of(t.Table).IndexBytes = t.TotalSizeBytes, t.IndexSizeBytes
	}
	for _, t := range d.Postgres.DeadTuples {
		of(t.Table).Live, of(t.Table).Dead = t.LiveTuples, t.DeadTuples
	}
	for _, t := range d.Postgres.HotUpdates {
		if t.HotUpdatePercentage != nil {
			of(t.Table).Hot = *t.HotUpdatePercentage
		}
	}
	for _, t := range d.Postgres.AutovacuumStatus {
		of(t.Table).Vacuumed = t.LastAutovacuum
	}
	for _, t := range all {
		d.Tables = append(d.Tables, *t)
	}
	slices.SortFunc(d.Tables, func(a, b table) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name)) })
	d.Tables = d.Tables[:min(len(d.Tables), maxTables)]
}

type streamsData struct {
	*api.Streams
	Next template.URL
}

func streams(r *page.Request) (*page.Content, error) {
	found, err := source.Read[api.Streams](r.Ctx, r.Client, r.Caller, string(page.Link("/api/v1/streams", "limit", "50", "cursor", r.Query.Get("after"))))
	if err != nil {
		return nil, err
	}
	d := &streamsData{Streams: found}
	if next := found.Pagination.Next; next != nil {
		d.Next = page.Link("streams", "after", *next)
	}
	return &page.Content{Title: "Streams", Data: d, Commands: []page.Command{r.Get("List the queries", "/api/v1/streams", "streams", "list")}}, nil
}

type maintenanceData struct {
	*api.Maintenance
	Rejected *api.SpoolRejections
}

// maintenance shows the maintenance modes and the spools.
func maintenance(r *page.Request) (*page.Content, error) {
	found, err := source.Read[api.Maintenance](r.Ctx, r.Client, r.Caller, "/api/v1/system/maintenance")
	if err != nil {
		return nil, err
	}
	rejected, err := source.Read[api.SpoolRejections](r.Ctx, r.Client, r.Caller, "/api/v1/system/maintenance/rejected?limit=50")
	if err != nil {
		return nil, err
	}
	return &page.Content{Title: "Maintenance", Data: &maintenanceData{found, rejected}, Commands: []page.Command{
		r.Get("Show the maintenance modes", "/api/v1/system/maintenance", "maintenance", "show"),
		r.Command("Begin push maintenance", http.MethodPost, "/api/v1/system/maintenance", `{"enabled": true}`, []string{"maintenance", "push-on"}),
		r.Command("End push maintenance", http.MethodPost, "/api/v1/system/maintenance", `{"enabled": false}`, []string{"maintenance", "push-off"}),
		r.Command("Begin pop maintenance", http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled": true}`, []string{"maintenance", "pop-on"}),
		r.Command("End pop maintenance", http.MethodPost, "/api/v1/system/maintenance/pop", `{"enabled": false}`, []string{"maintenance", "pop-off"}),
	}}, nil
}
