package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// manyPartitions and manyGroups are for the sizes of rows.
	manyPartitions, manyGroups = 10_000, 10
	// waiting is the number of requests that wait at once.
	waiting = 2_000
)

// measureGroups prints the cost of a push with ten groups, and the sizes of a partition and of a cursor.
func measureGroups(ctx context.Context, cluster *rig.Cluster, scale float64, out *rig.Report) (err error) {
	b, err := newBench(ctx, cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	l := load{100, 8, max(1000, int(50_000*scale)), payload}
	if err := b.prepare(ctx, l, manyGroups); err != nil {
		return err
	}
	pushed, err := b.costOf(ctx, func() error { return b.push(ctx, l) })
	if err != nil {
		return err
	}
	pushed.print(out, "10grp", l)
	if err := b.makePartitions(ctx); err != nil {
		return err
	}
	for _, row := range []struct{ what, table string }{{"a partition", "partition"}, {"a cursor (a group in a partition)", "cursor"}} {
		var size, rows int64
		err := b.admin.QueryRow(ctx, fmt.Sprintf("SELECT pg_total_relation_size('belfry.%s'), count(*) FROM belfry.%s", row.table, row.table)).Scan(&size, &rows)
		if err != nil {
			return fmt.Errorf("reading the size of %s: %w", row.table, err)
		}
		out.Printf("\n%s: %d bytes on disk (%d rows)", row.what, size/max(1, rows), rows)
	}
	out.Printf("\n")
	return nil
}

// makePartitions pushes a message to each of manyPartitions new partitions.
func (b *bench) makePartitions(ctx context.Context) error {
	const each = 500
	for first := 0; first < manyPartitions; first += each {
		items := make([]string, each)
		for i := range items {
			items[i] = fmt.Sprintf(`{"queue":%q,"partition":"customer-%d","payload":{}}`, queue, first+i)
		}
		var answer bytes.Buffer
		if _, err := b.Do(ctx, http.MethodPost, b.URL("/api/v1/push"), []byte(`{"items":[`+strings.Join(items, ",")+`]}`), &answer); err != nil {
			return err
		}
	}
	return nil
}

// measureWaiting prints the memory of a waiting request, with its connection.
func measureWaiting(ctx context.Context, cluster *rig.Cluster, out *rig.Report) (err error) {
	b, err := newBench(ctx, cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	if err := b.prepare(ctx, load{1, 1, 1, payload}, 1); err != nil {
		return err
	}
	before, err := b.Memory()
	if err != nil {
		return err
	}
	out.Printf("a server without requests: %d MiB of memory\n", before>>20)
	polling, stop := context.WithCancel(ctx)
	var polls sync.WaitGroup
	for range waiting {
		polls.Go(func() {
			_, _ = b.Call(polling, http.MethodGet, "/api/v1/pop/queue/"+queue+"?consumerGroup=group-0&wait=true&timeout=60000", nil, nil)
		})
	}
	err = b.WaitWaiting(ctx, waiting)
	if err == nil {
		var after int64
		after, err = b.Memory()
		out.Printf("a waiting request: %.1f KiB of memory of the server (%d requests)\n", float64(after-before)/waiting/1024, waiting)
	}
	stop()
	polls.Wait()
	return err
}
