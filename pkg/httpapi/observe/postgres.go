package observe

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Postgres reads what Postgres counts.
type Postgres interface {
	Database(ctx context.Context) (stats.Database, error)
	Tables(ctx context.Context) ([]stats.Table, error)
	Indexes(ctx context.Context) ([]stats.Index, error)
	Statements(ctx context.Context) ([]stats.Statement, error)
	Settings(ctx context.Context) ([]stats.Setting, error)
	Slots(ctx context.Context) ([]stats.Slot, error)
}

// schema is the schema of all tables and indexes that are listed.
const schema = "belfry"

// PostgresStats serves GET /api/v1/analytics/postgres-stats.
func (h *Handlers) PostgresStats(p *wire.Params) (any, error) {
	database, err := h.Live.Database(p.Ctx())
	if err != nil {
		return nil, err
	}
	tables, err := h.Live.Tables(p.Ctx())
	if err != nil {
		return nil, err
	}
	indexes, err := h.Live.Indexes(p.Ctx())
	if err != nil {
		return nil, err
	}
	statements, err := h.Live.Statements(p.Ctx())
	if err != nil {
		return nil, err
	}
	answer := wire.Fields{
		"timestamp", time.Now(), "database", database.Name,
		"databaseCache", append(wire.Fields{"database", database.Name}, cache(database.Blocks)...),
	}
	answer = append(append(answer, caches(tables, indexes)...), tableLists(tables)...)
	answer = append(answer,
		"activeQueries", wire.Each(statements, func(s *stats.Statement) wire.Fields {
			return wire.Fields{
				"pid", s.PID, "duration", s.Duration, "state", s.State, "query", s.Text, "waitEventType", s.WaitEventType, "waitEvent", s.WaitEvent,
			}
		}),
		"bufferConfig", wire.Fields{"sharedBuffers", database.SharedBuffers, "sharedBuffersSize", database.SharedBuffersSize},
		"bufferUsage", []any{},
	)
	return h.settings(p.Ctx(), answer)
}

// settings appends what Queen MQ does not have: the settings and the replication slots.
func (h *Handlers) settings(ctx context.Context, answer wire.Fields) (any, error) {
	settings, err := h.Live.Settings(ctx)
	if err != nil {
		return nil, err
	}
	slots, err := h.Live.Slots(ctx)
	return append(answer,
		"settings", wire.Each(settings, func(s *stats.Setting) wire.Fields {
			return wire.Fields{"name", s.Name, "value", s.Value, "source", s.Source, "pendingRestart", s.Pending}
		}),
		"replicationSlots", wire.Each(slots, func(s *stats.Slot) wire.Fields {
			return wire.Fields{"name", s.Name, "kind", s.Kind, "active", s.Active, "keptBytes", s.Kept}
		}),
	), err
}

// cache are the members of a cache.
func cache(b stats.Blocks) wire.Fields {
	return wire.Fields{"diskReads", b.Read, "cacheHits", b.Hit, "cacheHitRatio", percent(b.Hit, b.Read+b.Hit)}
}

// caches are the members that show how often Postgres found tables and indexes in memory.
func caches(tables []stats.Table, indexes []stats.Index) wire.Fields {
	var heap, index stats.Blocks
	for i := range tables {
		heap.Read, heap.Hit = heap.Read+tables[i].Heap.Read, heap.Hit+tables[i].Heap.Hit
	}
	for i := range indexes {
		index.Read, index.Hit = index.Read+indexes[i].Blocks.Read, index.Hit+indexes[i].Blocks.Hit
	}
	sum := func(b stats.Blocks) wire.Fields {
		return wire.Fields{"diskReads", b.Read, "cacheHits", b.Hit, "hitRatio", percent(b.Hit, b.Read+b.Hit)}
	}
	return wire.Fields{
		"tableCache", most(tables, func(t *stats.Table) int64 { return t.Heap.Read }, func(t *stats.Table) wire.Fields {
			return append(wire.Fields{"schema", schema, "table", t.Name}, cache(t.Heap)...)
		}),
		"indexCache", most(indexes, func(i *stats.Index) int64 { return i.Blocks.Read }, func(i *stats.Index) wire.Fields {
			return append(wire.Fields{"schema", schema, "table", i.Table, "index", i.Name}, cache(i.Blocks)...)
		}),
		"cacheSummary", wire.Fields{"tables", sum(heap), "indexes", sum(index)},
	}
}

// tableLists are the members that list tables.
func tableLists(tables []stats.Table) wire.Fields {
	dead := func(t *stats.Table) int64 { return t.Dead }
	return wire.Fields{
		"deadTuples", most(tables, dead, func(t *stats.Table) wire.Fields {
			return wire.Fields{
				"schema", schema, "table", t.Name, "deadTuples", t.Dead, "liveTuples", t.Live, "deadPercentage", percent(t.Dead, t.Live),
				"lastVacuum", time.Time(t.LastVacuum), "lastAutovacuum", time.Time(t.LastAutovacuum),
			}
		}),
		"hotUpdates", most(tables, func(t *stats.Table) int64 { return t.Updated }, func(t *stats.Table) wire.Fields {
			return wire.Fields{
				"schema", schema, "table", t.Name, "totalUpdates", t.Updated, "hotUpdates", t.HotUpdated, "hotUpdatePercentage", percent(t.HotUpdated, t.Updated),
			}
		}),
		"autovacuumStatus", most(tables, dead, func(t *stats.Table) wire.Fields {
			return wire.Fields{
				"table", t.Name, "lastAutovacuum", time.Time(t.LastAutovacuum), "deadTuples", t.Dead,
				"autovacuumCount", t.AutovacuumCount, "autoanalyzeCount", t.AutoanalyzeCount,
			}
		}),
		"tableSizes", most(tables, func(t *stats.Table) int64 { return t.TotalBytes }, func(t *stats.Table) wire.Fields {
			return wire.Fields{
				"table", t.Name, "totalSize", t.TotalSize, "totalSizeBytes", t.TotalBytes, "tableSize", t.TableSize, "tableSizeBytes", t.TableBytes,
				"indexSize", t.IndexSize, "indexSizeBytes", t.IndexBytes,
			}
		}),
	}
}

// most converts the rows, those with the most first.
func most[Row any](rows []Row, of func(*Row) int64, convert func(*Row) wire.Fields) []wire.Fields {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(of(&b), of(&a)) })
	return wire.Each(rows, convert)
}

// percent returns part as a percentage of whole, or nil without a whole.
func percent(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	share := math.Round(10_000*float64(part)/float64(whole)) / 100
	return &share
}
