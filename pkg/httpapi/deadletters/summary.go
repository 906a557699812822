package deadletters

import (
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/lists"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
)

const (
	// defaultLetters and maxLetters are the default and the largest number of dead letters that a summary lists.
	defaultLetters, maxLetters = 50, 1000
	// defaultExamined is the default number of dead letters that a summary examines.
	defaultExamined = 10_000
	// maxGroups is the maximum number of errors, of shapes and of partitions in a summary.
	maxGroups = 50
)

// Summary serves GET /api/v1/dlq/summary. Queen MQ does not have this route.
func (h *Handlers) Summary(p *wire.Params) (any, error) {
	filter := ReadFilter(p)
	p.Check(observe.MayReadNamed(p, filter.Queue))
	bounds := deadletter.SummaryBounds{
		Examine: int64(wire.Clamp(1, wire.LeadingInt(p.QueryParam("examine"), defaultExamined), deadletter.MaxExamined)),
		Letters: int64(wire.Clamp(0, wire.LeadingInt(p.QueryParam("limit"), defaultLetters), maxLetters)),
		Groups:  maxGroups,
	}
	var after deadletter.ListKey
	after.FailedAt, after.ID = wire.ReadCursor(p, func(id string) (int64, error) { return strconv.ParseInt(id, 10, 64) })
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := h.Letters.Summary(p.Ctx(), filter, after, bounds)
	if err != nil {
		return nil, err
	}
	total, countedAt, err := h.countLetters(p, &filter)
	return api.DeadLetterSummary{
		Total: total, CountedAt: countedAt, Examined: s.Examined, Matched: s.Matched, Next: keyCursor(s.Next),
		Shapes: wire.Each(s.Shapes, func(c *deadletter.Count) api.DeadLetterShape {
			return api.DeadLetterShape{
				Queue: c.Queue, ConsumerGroup: c.Group, ErrorShape: c.Shape, Example: c.Error, Texts: c.Texts, Count: c.N, Oldest: c.Oldest, Newest: c.Newest,
			}
		}),
		Errors: wire.Each(s.Errors, func(c *deadletter.Count) api.DeadLetterError {
			return api.DeadLetterError{Queue: c.Queue, ConsumerGroup: c.Group, ErrorMessage: c.Error, Count: c.N, Oldest: c.Oldest, Newest: c.Newest}
		}),
		Partitions: wire.Each(s.Partitions, func(c *deadletter.Count) api.DeadLetterPartition {
			return api.DeadLetterPartition{
				Queue: c.Queue, ConsumerGroup: c.Group, Partition: c.Partition, PartitionID: c.PartitionID.String(), Count: c.N, Oldest: c.Oldest, Newest: c.Newest,
			}
		}),
		Messages: wire.Each(s.Letters, Row), Pagination: api.Page{Limit: bounds.Letters, Next: keyCursor(s.LettersNext)},
	}, err
}

// countLetters returns how many dead letters a queue, a group or everything that the caller may see has, and when they were counted.
// Both are nil with another filter.
func (h *Handlers) countLetters(p *wire.Params, f *deadletter.Filter) (total *int64, at *time.Time, err error) {
	if f.Partition != nil || f.TransactionID != nil || f.Error != nil || f.Shape != nil || !f.From.IsZero() || !f.To.IsZero() {
		return nil, nil, nil
	}
	s, err := lists.Counted(p, h.Totals)
	if err != nil {
		return nil, nil, err
	}
	grants := identity.GrantsOf(p.Ctx())
	sum := s.DeadLetters(func(g *totals.Group) bool {
		return (f.Queue == nil || *f.Queue == g.Queue) && (f.Group == nil || *f.Group == g.Name) && grants.MayRead(g.Queue)
	})
	return &sum, &s.At, nil
}

// keyCursor returns the cursor after a key, nil for the zero key.
func keyCursor(key deadletter.ListKey) *string {
	if key == (deadletter.ListKey{}) {
		return nil
	}
	return wire.OrNull(wire.Cursor(key.FailedAt, key.ID))
}
