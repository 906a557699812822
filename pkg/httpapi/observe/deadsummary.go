package observe

import (
	"strconv"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

const (
	// defaultLetters and maxLetters bound the dead letters that a summary lists.
	defaultLetters, maxLetters = 50, 1000
	// maxGroups is how many errors, and how many partitions, a summary has.
	maxGroups = 50
)

// Summary serves GET /api/v1/dlq/summary. Queen MQ does not have it.
func (h *Handlers) Summary(p *wire.Params) (any, error) {
	filter := DeadLetterFilter(p)
	p.Check(mayReadNamed(p, filter.Queue))
	bounds := deadletter.SummaryBounds{
		Examine: int64(wire.Clamp(1, wire.LeadingInt(p.QueryParam("examine"), deadletter.MaxExamined), deadletter.MaxExamined)),
		Letters: int64(wire.Clamp(0, wire.LeadingInt(p.QueryParam("limit"), defaultLetters), maxLetters)),
		Groups:  maxGroups,
	}
	var after deadletter.ListKey
	after.FailedAt, after.ID = wire.ReadCursor(p, func(id string) (int64, error) { return strconv.ParseInt(id, 10, 64) })
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := h.DeadLetters.Summary(p.Ctx(), filter, after, bounds)
	return api.DeadLetterSummary{
		Examined: s.Examined, Matched: s.Matched, Next: keyCursor(s.Next),
		Errors: wire.Each(s.Errors, func(c *deadletter.Count) api.DeadLetterError {
			return api.DeadLetterError{Queue: c.Queue, ConsumerGroup: c.Group, ErrorMessage: c.Error, Count: c.N, Oldest: c.Oldest, Newest: c.Newest}
		}),
		Partitions: wire.Each(s.Partitions, func(c *deadletter.Count) api.DeadLetterPartition {
			return api.DeadLetterPartition{
				Queue: c.Queue, ConsumerGroup: c.Group, Partition: c.Partition, PartitionID: c.PartitionID.String(), Count: c.N, Oldest: c.Oldest, Newest: c.Newest,
			}
		}),
		Messages: wire.Each(s.Letters, DeadLetterRow), Pagination: api.Page{Limit: bounds.Letters, Next: keyCursor(s.LettersNext)},
	}, err
}

// keyCursor returns the cursor after a key, nil for the zero key.
func keyCursor(key deadletter.ListKey) *string {
	if key == (deadletter.ListKey{}) {
		return nil
	}
	return wire.OrNull(wire.Cursor(key.FailedAt, key.ID))
}
