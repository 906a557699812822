package queen

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Notify serves POST /internal/api/notify. It wakes the waiting pops of a queue. Belfry does not need this
// route. It is for scripts that write to the tables of a queue directly.
func (h *Handlers) Notify(p *wire.Params) (any, error) {
	var name, partition string
	err := h.Bodies.ReadObject(p, func(field string, value jsontext.Value) error {
		into := map[string]*string{"queue": &name, "partition": &partition}[field]
		if into == nil || value.Kind() == 'n' {
			return nil
		}
		text, ok := wire.Text(value)
		if !ok {
			return queue.Invalidf("%s must be a string, not %s", field, wire.Clip(string(value)))
		}
		*into = text
		return wire.CheckName(field, text)
	})
	if err == nil && name == "" {
		err = queue.Invalidf("queue is required")
	}
	if err != nil {
		return nil, err
	}
	return wire.Fields{"status", "ok"}, h.Catalog.Notify(p.Ctx(), name, partition)
}

// Migration serves the routes /api/v1/migration/*. It always returns an error, because Belfry does not copy databases.
func (h *Handlers) Migration(*wire.Params) (any, error) {
	return nil, &queue.Error{
		Code: queue.CodeNotServed,
		Message: "Belfry does not copy databases: use pg_dump and pg_restore, or replication; " +
			"see \"Move to another cluster or Postgres version\" in docs/operations.md",
	}
}
