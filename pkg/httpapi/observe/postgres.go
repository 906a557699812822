package observe

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Postgres reads the statistics of Postgres.
type Postgres interface {
	Database(ctx context.Context) (stats.Database, error)
	Tables(ctx context.Context) ([]stats.Table, error)
	Indexes(ctx context.Context) ([]stats.Index, error)
	Statements(ctx context.Context) ([]api.ActiveQuery, error)
	Settings(ctx context.Context) ([]api.Setting, error)
	Slots(ctx context.Context) ([]api.ReplicationSlot, error)
}

// schema is the schema of all listed tables and indexes.
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
	settings, err := h.Live.Settings(p.Ctx())
	if err != nil {
		return nil, err
	}
	slots, err := h.Live.Slots(p.Ctx())
	answer := api.Postgres{
		Timestamp: time.Now(), Database: database.Name,
		DatabaseCache: api.DatabaseCache{Database: database.Name, CacheHits: cacheHits(database.Blocks)},
		ActiveQueries: statements, Settings: settings, ReplicationSlots: slots,
		BufferConfig: api.BufferConfig{SharedBuffers: database.SharedBuffers, SharedBuffersSize: database.SharedBuffersSize},
	}
	setCaches(&answer, tables, indexes)
	setTables(&answer, tables)
	return answer, err
}

func cacheHits(b stats.Blocks) api.CacheHits {
	return api.CacheHits{DiskReads: b.Read, CacheHits: b.Hit, CacheHitRatio: percent(b.Hit, b.Read+b.Hit)}
}

// setCaches sets how often Postgres found blocks of tables and indexes in memory.
func setCaches(answer *api.Postgres, tables []stats.Table, indexes []stats.Index) {
	var heap, index stats.Blocks
	for i := range tables {
		heap.Read, heap.Hit = heap.Read+tables[i].Heap.Read, heap.Hit+tables[i].Heap.Hit
	}
	for i := range indexes {
		index.Read, index.Hit = index.Read+indexes[i].Blocks.Read, index.Hit+indexes[i].Blocks.Hit
	}
	sum := func(b stats.Blocks) api.Cache {
		return api.Cache{DiskReads: b.Read, CacheHits: b.Hit, HitRatio: percent(b.Hit, b.Read+b.Hit)}
	}
	answer.TableCache = most(tables, func(t *stats.Table) int64 { return t.Heap.Read }, func(t *stats.Table) api.TableCache {
		return api.TableCache{Schema: schema, Table: t.Name, CacheHits: cacheHits(t.Heap)}
	})
	answer.IndexCache = most(indexes, func(i *stats.Index) int64 { return i.Blocks.Read }, func(i *stats.Index) api.IndexCache {
		return api.IndexCache{Schema: schema, Table: i.Table, Index: i.Name, CacheHits: cacheHits(i.Blocks)}
	})
	answer.CacheSummary = api.CacheSummary{Tables: sum(heap), Indexes: sum(index)}
}

// setTables sets the lists of tables.
func setTables(answer *api.Postgres, tables []stats.Table) {
	dead := func(t *stats.Table) int64 { return t.Dead }
	answer.DeadTuples = most(tables, dead, func(t *stats.Table) api.DeadTuples {
		return api.DeadTuples{
			Schema: schema, Table: t.Name, DeadTuples: t.Dead, LiveTuples: t.Live, DeadPercentage: percent(t.Dead, t.Live),
			LastVacuum: (*time.Time)(&t.LastVacuum), LastAutovacuum: (*time.Time)(&t.LastAutovacuum),
		}
	})
	answer.HotUpdates = most(tables, func(t *stats.Table) int64 { return t.Updated }, func(t *stats.Table) api.HotUpdates {
		return api.HotUpdates{
			Schema: schema, Table: t.Name, TotalUpdates: t.Updated, HotUpdates: t.HotUpdated, HotUpdatePercentage: percent(t.HotUpdated, t.Updated),
		}
	})
	answer.AutovacuumStatus = most(tables, dead, func(t *stats.Table) api.Autovacuum {
		return api.Autovacuum{
			Table: t.Name, LastAutovacuum: (*time.Time)(&t.LastAutovacuum), DeadTuples: t.Dead,
			AutovacuumCount: t.AutovacuumCount, AutoanalyzeCount: t.AutoanalyzeCount,
		}
	})
	answer.TableSizes = most(tables, func(t *stats.Table) int64 { return t.TotalBytes }, func(t *stats.Table) api.TableSize {
		return api.TableSize{
			Table: t.Name, TotalSize: t.TotalSize, TotalSizeBytes: t.TotalBytes, TableSize: t.TableSize, TableSizeBytes: t.TableBytes,
			IndexSize: t.IndexSize, IndexSizeBytes: t.IndexBytes,
		}
	})
}

// most converts the rows, sorted by key in descending order.
func most[Row, JSON any](rows []Row, key func(*Row) int64, convert func(*Row) JSON) []JSON {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(key(&b), key(&a)) })
	return wire.Each(rows, convert)
}

// percent returns part as a percentage of whole, or nil if whole is 0.
func percent(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	share := math.Round(10_000*float64(part)/float64(whole)) / 100
	return &share
}
