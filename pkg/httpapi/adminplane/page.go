package adminplane

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// The parts of a list; see the functions of these names in pkg/httpapi/wire.

const maxLimit = wire.MaxLimit

type pageJSON = wire.Page

func readPage(p *wire.Params, defaultLimit int) pageJSON { return wire.ReadPage(p, defaultLimit) }

func cursor(at time.Time, id any) string { return wire.Cursor(at, id) }

func readCursor[ID any](p *wire.Params, parse func(string) (ID, error)) (at time.Time, id ID) {
	return wire.ReadCursor(p, parse)
}

func nextPage[Row any](page pageJSON, rows []Row, cursorAfter func(last *Row) string) wire.Fields {
	return wire.NextPage(page, rows, cursorAfter)
}

func each[Row, JSON any](rows []Row, convert func(*Row) JSON) []JSON { return wire.Each(rows, convert) }

func orEmpty(text *string) string { return wire.OrEmpty(text) }

func orNull[T comparable](value T) *T { return wire.OrNull(value) }
