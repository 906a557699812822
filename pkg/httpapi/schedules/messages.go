package schedules

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Messages finds the states of messages by their names. *stats.Reader implements it.
type Messages interface {
	Named(ctx context.Context, names []stats.MessageName) (map[stats.MessageName]stats.NamedMessage, error)
}

// addMessages sets LastMessage of each schedule.
func (h *Handlers) addMessages(ctx context.Context, list []api.Schedule) error {
	var names []stats.MessageName
	for i := range list {
		if list[i].LastTransactionID != nil {
			names = append(names, nameOf(&list[i]))
		}
	}
	if len(names) == 0 {
		return nil
	}
	states, err := h.Messages.Named(ctx, names)
	for i := range list {
		if list[i].LastTransactionID == nil {
			continue
		}
		if m, found := states[nameOf(&list[i])]; found {
			list[i].LastMessage = &api.ScheduleMessage{
				PartitionID: m.PartitionID.String(), TransactionID: *list[i].LastTransactionID, Status: string(m.Status), Unfinished: m.Unfinished,
			}
		}
	}
	return err
}

// nameOf names the last message of a schedule.
func nameOf(s *api.Schedule) stats.MessageName {
	return stats.MessageName{Queue: s.Queue, Partition: s.Partition, TransactionID: *s.LastTransactionID, Group: s.OverlapGroup}
}
