package transaction

import (
	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/pipeline"
	"github.com/belfry-mq/belfry/sql"
)

var sqlApplyState = sql.Query("store/apply_state")

// stateRefusals are why a change of state is refused, by the result of belfry.apply_state.
var stateRefusals = map[int32]string{
	1: "Unknown query_id: register the query again with POST /streams/v1/queries",
	2: "Unknown partition_id: it is no partition of the source queue of the query",
}

// queueState adds the change of state to b. It is the first statement of the transaction.
func queueState(b *pgx.Batch, change *queue.StateChange) {
	keys, values := make([]string, len(change.Keys)), make([]*string, len(change.Keys))
	ends := make([]*float64, len(change.Keys))
	for i, k := range change.Keys {
		keys[i], ends[i] = k.Key, k.WindowEnd
		if k.Value != nil {
			text := string(k.Value)
			values[i] = &text
		}
	}
	b.Queue(sqlApplyState, [16]byte(change.Stream), [16]byte(change.Partition), keys, values, ends)
}

// readState reads the result of queueState. A refusal refuses the whole transaction.
func (t *call) readState(results pgx.BatchResults) error {
	var code int32
	return pipeline.ForEach(results, "changing the state of a stream", []any{&code}, func() error {
		if text := stateRefusals[code]; text != "" {
			t.failure = text
		}
		return nil
	})
}

// markDuplicates gives each item of a cycle that is stored already the result of the stored one.
func (f *flush) markDuplicates() {
	t := f.t
	for at, id := range f.before {
		result := f.push.Stored[at].Result()
		result.Duplicate, result.MessageID = true, id
	}
	for i, first := range t.push.First {
		if first != i {
			t.push.Results[i] = t.push.Results[first]
			t.push.Results[i].Duplicate = true
		}
	}
}
