package data

import "github.com/belfry-mq/belfry/pkg/queue"

// Limits limits the content of one call.
type Limits struct {
	// Items is http.max_items, the maximum number of pushed items of a call or transaction.
	Items int
	// Partitions is http.max_partitions, the maximum number of distinct partitions of the pushed items.
	Partitions int
	// Acks is http.max_acks, the maximum number of acks of a call or transaction.
	Acks int
}

// checkItems returns an error if n pushed items are too many.
func (l Limits) checkItems(n int) error {
	if n > l.Items {
		return queue.Invalidf("the call pushes more than %d items (http.max_items): send several calls", l.Items)
	}
	return nil
}

// checkAcks returns an error if n acks are too many.
func (l Limits) checkAcks(n int) error {
	if n > l.Acks {
		return queue.Invalidf("the call has more than %d acks (http.max_acks): send several calls", l.Acks)
	}
	return nil
}

// checkPartitions returns an error if the items have too many distinct partitions.
func (l Limits) checkPartitions(items []queue.PushItem) error {
	if len(items) <= l.Partitions {
		return nil
	}
	type name struct{ queue, partition string }
	distinct := make(map[name]struct{}, l.Partitions)
	for i := range items {
		distinct[name{items[i].Queue, items[i].Partition}] = struct{}{}
		if len(distinct) > l.Partitions {
			return queue.Invalidf("the call pushes to more than %d partitions (http.max_partitions): send several calls", l.Partitions)
		}
	}
	return nil
}

// checkTransaction returns an error if a transaction exceeds one of the limits.
func (l Limits) checkTransaction(operations []queue.Operation) error {
	var items []queue.PushItem
	for _, operation := range operations {
		if operation.Push != nil {
			items = append(items, *operation.Push)
		}
	}
	if err := l.checkItems(len(items)); err != nil {
		return err
	}
	if err := l.checkAcks(len(operations) - len(items)); err != nil {
		return err
	}
	return l.checkPartitions(items)
}
