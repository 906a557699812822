package stats

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlPartitionSearch = sql.Query("insight/stats/partition_search")

const (
	// searchBlock is how many names one statement examines. A search ends after searchTime, when a block has ended.
	searchBlock = 10_000
	searchTime  = 100 * time.Millisecond
)

// SearchPlace is a place in a search. The search begins at the searched part, because the names that begin with it are there. At the
// end it goes on with the first name, and ends before the part.
type SearchPlace struct {
	// Wrapped is true after the end of the names.
	Wrapped bool
	// Examined counts the examined partitions.
	Examined int64
	// Name is the last examined name. If Begun is false, the search begins at the part.
	Begun bool
	Name  string
}

// FoundPartition is a partition whose name has the part.
type FoundPartition struct {
	ID   queue.ID
	Name string
}

// SearchPartitions finds partitions of a queue whose names have a part, in any case. It goes on after a place. It returns at most
// limit partitions and the next place (nil: all names are examined). A call examines names for about a tenth of a second. Errors:
// CodeNotFound, CodeUnavailable.
func (g *Groups) SearchPartitions(ctx context.Context, queueName, part string, from SearchPlace, limit int) (found []FoundPartition, at SearchPlace, more bool, err error) {
	q, err := New(g.pool).queue(ctx, queueName)
	if err != nil {
		return nil, from, false, err
	}
	began := time.Now()
	for at = from; ; {
		block, err := g.searchBlock(ctx, q.key, part, at)
		if err != nil {
			return nil, from, false, postgres.Wrapf(err, "searching the partitions of queue %q", queueName)
		}
		for _, one := range block.found {
			found = append(found, one.FoundPartition)
			if len(found) == limit {
				at.Examined, at.Name, at.Begun = at.Examined+one.at, one.Name, true
				return found, at, true, nil
			}
		}
		at.Examined += block.examined
		switch {
		case block.examined == searchBlock:
			at.Name, at.Begun = block.last, true
		case at.Wrapped:
			return found, at, false, nil
		default:
			at.Wrapped, at.Begun, at.Name = true, false, ""
		}
		if time.Since(began) > searchTime {
			return found, at, true, nil
		}
	}
}

// placed is a match with its place in the block.
type placed struct {
	FoundPartition
	at int64
}

type searched struct {
	found    []placed
	last     string
	examined int64
}

// searchBlock examines the next names.
func (g *Groups) searchBlock(ctx context.Context, key int64, part string, at SearchPlace) (block searched, err error) {
	begin, end := at.Name, zeronull.Text("")
	switch {
	case at.Wrapped:
		end = zeronull.Text(part)
	case !at.Begun:
		begin = part
	}
	block.found, err = postgres.Collect(ctx, g.pool, sqlPartitionSearch, func(row pgx.CollectableRow) (one placed, err error) {
		err = row.Scan((*zeronull.UUID)(&one.ID), (*zeronull.Text)(&one.Name), &one.at)
		return one, err
	}, key, part, begin, at.Begun, int64(searchBlock), end)
	if n := len(block.found); n > 0 {
		last := block.found[n-1]
		block.found, block.last, block.examined = block.found[:n-1], last.Name, last.at
	}
	return block, err
}
