package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

const (
	warmUps = 3
	rounds  = 7
	// span is the length of an interval. A request and the work after its answer take less than this time.
	span = time.Second
	// wait is the time from the start of the pop to the push that wakes the pop.
	wait = span / 3
	// database and otherRole are in the private Postgres. The measured server connects as the owner of the cluster.
	database  = "belfry"
	otherRole = "other"
	// logPrefix makes each line of the Postgres log begin with the role.
	logPrefix = "%u|"
)

// rig is a private Postgres with two servers on it.
type rig struct {
	cluster *devdb.Cluster
	dir     string
	here    caller         // the measured server, in this process
	other   caller         // the server in another process
	stops   []func() error // in the order of the starts; called in reverse
}

// measure starts Postgres and the servers, makes the requests, and returns the results for pop, push and ack.
func measure(ctx context.Context, dir string) (found []way, err error) {
	r := &rig{dir: dir}
	defer func() {
		for i := len(r.stops) - 1; i >= 0; i-- {
			err = errors.Join(err, r.stops[i]())
		}
	}()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	idle, pop, push, ack := &sample{}, &sample{}, &sample{}, &sample{}
	for round := range warmUps + rounds {
		if err := r.round(ctx, round >= warmUps, idle, pop, push, ack); err != nil {
			return nil, err
		}
	}
	for _, verb := range []struct {
		name   string
		sample *sample
	}{{"pop", pop}, {"push", push}, {"ack", ack}} {
		w, err := newWay(verb.name, verb.sample, idle)
		if err != nil {
			return nil, err
		}
		found = append(found, w)
	}
	return found, nil
}

func (r *rig) start(ctx context.Context) error {
	cluster, err := devdb.Start(ctx, devdb.Config{
		Dir:      filepath.Join(r.dir, "cluster"),
		Settings: map[string]string{"log_statement": "all", "log_line_prefix": logPrefix},
	})
	if err != nil {
		return err
	}
	r.cluster = cluster
	r.stops = append(r.stops, func() error { return cluster.Stop(context.WithoutCancel(ctx)) })
	if err := cluster.CreateDatabase(ctx, database); err != nil {
		return err
	}
	base, stop, err := startServer(ctx, cluster.URL(database))
	if err != nil {
		return err
	}
	r.here, r.stops = caller(base), append(r.stops, stop)
	if err := r.createRole(ctx); err != nil {
		return err
	}
	config, err := pgx.ParseConfig(cluster.URL(database))
	if err != nil {
		return fmt.Errorf("reading the address of Postgres: %w", err)
	}
	dsn := strings.Replace(cluster.URL(database), config.User+"@", otherRole+"@", 1)
	base, stop, err = startOther(ctx, dsn)
	if err != nil {
		return err
	}
	r.other, r.stops = caller(base), append(r.stops, stop)
	return nil
}

// createRole creates the role of the other server.
func (r *rig) createRole(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, r.cluster.URL(database))
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	_, err = conn.Exec(ctx, "CREATE ROLE "+otherRole+" SUPERUSER LOGIN")
	return errors.Join(err, conn.Close(ctx))
}

// round makes each request once. If counted, it adds the executed blocks and statements to the samples.
func (r *rig) round(ctx context.Context, counted bool, idle, pop, push, ack *sample) error {
	var got delivery
	for _, step := range []struct {
		sample *sample
		work   func() error
	}{
		{idle, func() error { return nil }},
		{pop, func() (err error) { got, err = r.wokenPop(ctx); return err }},
		{ack, func() error { return r.here.ack(ctx, got) }},
		{push, func() error { return r.here.push(ctx, "pushed") }},
		{nil, func() error { return r.other.drain(ctx, "pushed") }},
	} {
		if err := r.interval(ctx, counted, step.sample, step.work); err != nil {
			return err
		}
	}
	return nil
}

// interval runs work and waits for the end of the span. If counted, it adds the executed blocks and statements to
// into.
func (r *rig) interval(ctx context.Context, counted bool, into *sample, work func() error) error {
	log := filepath.Join(r.cluster.Dir(), "postgres.log")
	before, err := os.Stat(log)
	if err != nil {
		return fmt.Errorf("reading the size of the Postgres log: %w", err)
	}
	if err := clearCounters(); err != nil {
		return err
	}
	end := time.NewTimer(span)
	defer end.Stop()
	if err := work(); err != nil {
		return err
	}
	select {
	case <-end.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if into == nil || !counted {
		return nil
	}
	blocks, err := readCounters(ctx, r.dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return fmt.Errorf("reading the log of Postgres: %w", err)
	}
	into.add(blocks, sentStatements(bytes.NewReader(text[before.Size():])))
	return nil
}

// wokenPop starts a pop that waits, pushes to the other server, and returns the message that the pop received.
func (r *rig) wokenPop(ctx context.Context) (delivery, error) {
	var got delivery
	done := make(chan error, 1)
	go func() {
		var err error
		got, err = r.here.pop(ctx, "popped", "wait=true&timeout=30000")
		done <- err
	}()
	select {
	case err := <-done:
		return got, errors.Join(errors.New("the pop did not wait"), err)
	case <-time.After(wait):
	}
	if err := r.other.push(ctx, "popped"); err != nil {
		return got, errors.Join(err, <-done)
	}
	return got, <-done
}
