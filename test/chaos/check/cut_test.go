package check_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

func TestCutKeepsOperationsOfThePartition(t *testing.T) {
	t.Parallel()
	r := story()
	elsewhere := func(o history.Operation) *history.Operation {
		for i := range o.Items {
			o.Items[i].Partition = "other"
		}
		return r.add(o)
	}
	elsewhere(history.Operation{Kind: history.Push, Items: pushed("x")})                          // 9
	elsewhere(history.Operation{Kind: history.Pop, LeaseID: "L9", Items: delivered("x")})         // 10
	elsewhere(history.Operation{Kind: history.Extend, LeaseID: "L9"})                             // 11
	r.add(history.Operation{Kind: history.Extend, LeaseID: "L3"})                                 // 12
	r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown})                         // 13
	r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown, Partition: "other"})     // 14
	r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown}).Group = "h"             // 15
	r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown}).Queue = "another queue" // 16
	r.op(2).Items = append(r.op(2).Items, history.Item{Partition: "other", TransactionID: "y"})
	before := slices.Clone(r.operations)

	ids := func(v check.Violation) []int64 {
		var ids []int64
		for _, o := range check.Cut(r.operations, v) {
			ids = append(ids, o.ID)
		}
		return ids
	}
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 12, 13}, ids(check.Violation{Queue: "q", Partition: "p", Group: "g"}))
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 15}, ids(check.Violation{Queue: "q", Partition: "p"}))
	require.Equal(t, []int64{2, 9, 10, 11, 13, 14}, ids(check.Violation{Queue: "q", Partition: "other", Group: "g"}))
	require.Equal(t, []int64{16}, ids(check.Violation{Queue: "another queue"}))
	require.Len(t, ids(check.Violation{}), 16)
	require.Equal(t, pushed("d"), check.Cut(r.operations, check.Violation{Queue: "q", Partition: "p"})[1].Items)
	require.Equal(t, before, r.operations)
}
