// Package limits has the clients of a chaos run with limited groups. One group has a rate, the other one a concurrency. After the run,
// test/limitcheck judges the leases that triggers recorded.
package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/httpcall"
	"github.com/belfry-mq/belfry/test/limitcheck"
)

// The queue and its groups. Paced has a rate, and Few has a concurrency.
const (
	Queue       = "chaos.limited"
	Paced       = "paced"
	Few         = "few"
	Concurrency = 5
)

// Rate is the rate of Paced.
var Rate = limitcheck.Bucket{Messages: 200, Per: time.Second, Burst: 20}

const (
	partitions = 100
	leaseTime  = 2 * time.Second
	// pacedConsumers, fewConsumers and sqlConsumers are the numbers of clients. Those of Few are more than its places.
	pacedConsumers, fewConsumers, sqlConsumers = 30, 10, 4
	popWait                                    = 3 * time.Second
	callTimeout                                = 6 * time.Second
	pushBatch                                  = 1000
	failurePause                               = 50 * time.Millisecond
)

// Config is where the clients find Belfry.
type Config struct {
	Seed     uint64
	URLs     []string
	Database *pgxpool.Pool // bypasses the unreliable network
	SQL      *pgxpool.Pool // of the consumers in SQL
}

const (
	sqlQueue = `UPDATE belfry.queue SET lease_time = $2, retry_limit = 1000000 WHERE name = $1`
	// sqlLimits sets the limits before the groups exist. Their first pop finds the limits.
	sqlLimits = `INSERT INTO belfry.group_limit (queue_id, group_name, concurrency, rate_messages, rate_per, rate_burst)
		SELECT q.id, g.name, g.concurrency, g.messages, g.per, g.burst
		  FROM belfry.queue q, (VALUES ('few', $2::bigint, NULL, NULL, NULL), ('paced', NULL, $3::bigint, $4::interval, $5::bigint)) AS g(name, concurrency, messages, per, burst)
		 WHERE q.name = $1`
	sqlPop = `SELECT DISTINCT p.lease::text FROM belfry.pop($1, $2, $3, partitions => $4) AS p`
)

// Prepare pushes messages, sets the limits and installs the trigger of limitcheck.
func Prepare(ctx context.Context, c Config, messages int) error {
	for first := 0; first < messages; first += pushBatch {
		items := make([]map[string]any, min(pushBatch, messages-first))
		for i := range items {
			items[i] = map[string]any{"queue": Queue, "partition": fmt.Sprintf("p%d", i%partitions), "payload": first + i}
		}
		got, err := newClient(principals.Consumer, c.URLs, 0).send(ctx, http.MethodPost, "/api/v1/push", map[string]any{"items": items})
		if err != nil || got.Status != http.StatusCreated {
			return fmt.Errorf("pushing messages: status %d: %.200s: %w", got.Status, got.Raw, err)
		}
	}
	if _, err := c.Database.Exec(ctx, sqlQueue, Queue, int(leaseTime.Seconds())); err != nil {
		return fmt.Errorf("configuring the queue: %w", err)
	}
	if _, err := c.Database.Exec(ctx, sqlLimits, Queue, Concurrency, Rate.Messages, Rate.Per, Rate.Burst); err != nil {
		return fmt.Errorf("setting limits: %w", err)
	}
	return limitcheck.Watch(ctx, c.Database)
}

// Work runs all clients until ctx ends.
func Work(ctx context.Context, c Config) {
	var all sync.WaitGroup
	run := func(n int, group string, hold time.Duration) {
		for range n {
			one := newClient(principals.Consumer, c.URLs, c.Seed)
			all.Go(func() { one.consume(ctx, group, hold) })
		}
	}
	run(pacedConsumers, Paced, 0)
	run(fewConsumers, Few, 20*time.Millisecond)
	for i := range sqlConsumers {
		choose := rand.New(rand.NewPCG(c.Seed, uint64(i))) //nolint:gosec // repeatable
		all.Go(func() {
			for pause(ctx, failurePause) {
				_ = consumeSQL(ctx, c.SQL, choose) // a fault may end the session
			}
		})
	}
	all.Wait()
}

// client is a consumer over HTTP. One goroutine uses it.
type client struct {
	urls   []string
	http   *http.Client
	choose *rand.Rand
}

var clients struct {
	sync.Mutex
	made uint64
}

func newClient(token string, urls []string, seed uint64) *client {
	clients.Lock()
	defer clients.Unlock()
	clients.made++
	return &client{
		urls: urls, choose: rand.New(rand.NewPCG(seed, clients.made)), //nolint:gosec // repeatable
		http: &http.Client{Transport: principals.Transport(token, &http.Transport{})},
	}
}

func (c *client) send(ctx context.Context, method, target string, body any) (httpcall.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+popWait)
	defer cancel()
	call := httpcall.Call{Method: method, Target: target}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return httpcall.Reply{}, err
		}
		call.Body = string(text)
	}
	return httpcall.Send(ctx, c.http, c.urls[c.choose.IntN(len(c.urls))], call)
}

// consume pops and completes messages. It forgets some deliveries, so that their leases end by the clock, and extends others.
func (c *client) consume(ctx context.Context, group string, hold time.Duration) {
	defer c.http.CloseIdleConnections()
	for ctx.Err() == nil {
		var d struct {
			LeaseID  string
			Messages []struct{ TransactionID, PartitionID string }
		}
		got, err := c.send(ctx, http.MethodGet, fmt.Sprintf("/api/v1/pop/queue/%s?consumerGroup=%s&batch=%d&partitions=%d&wait=true&timeout=%d",
			Queue, group, 1+c.choose.IntN(20), 1+c.choose.IntN(3), popWait.Milliseconds()), nil)
		if err == nil && got.Status == http.StatusOK {
			err = json.Unmarshal(got.Raw, &d)
		}
		if err != nil || got.Status >= http.StatusBadRequest {
			pause(ctx, failurePause)
			continue
		}
		if len(d.Messages) == 0 {
			continue
		}
		if hold > 0 {
			pause(ctx, time.Duration(c.choose.Int64N(int64(hold))))
			switch c.choose.IntN(20) {
			case 0: // forgets the lease
				continue
			case 1:
				_, _ = c.send(ctx, http.MethodPost, "/api/v1/lease/"+d.LeaseID+"/extend", map[string]any{"seconds": 1})
				pause(ctx, leaseTime-hold+time.Duration(c.choose.Int64N(int64(4*hold)))) // the lease ends about now
			}
		}
		acks := make([]map[string]any, len(d.Messages))
		for i, m := range d.Messages {
			acks[i] = map[string]any{"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": d.LeaseID, "status": "completed"}
		}
		_, _ = c.send(ctx, http.MethodPost, "/api/v1/ack/batch", map[string]any{"consumerGroup": group, "acknowledgments": acks})
	}
}

// consumeSQL pops in a transaction of Few, with a savepoint that may be rolled back.
func consumeSQL(ctx context.Context, pool *pgxpool.Pool, choose *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlPop, Queue, Few, 1+choose.IntN(5), 1+choose.IntN(2))
		if err != nil {
			return err
		}
		leases, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || choose.IntN(4) == 0 {
			return err // the leases end by the clock
		}
		if err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			for _, lease := range leases {
				if _, err := inner.Exec(ctx, `SELECT belfry.ack($1::uuid)`, lease); err != nil {
					return err
				}
			}
			if choose.IntN(4) == 0 {
				return pgx.ErrTxClosed // rolls the savepoint back, and with it the acks
			}
			return nil
		}); err != nil {
			return err
		}
		return nil
	})
}

// pause waits for d and returns true. If ctx ends first, it returns false.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Verdict is the result of a run.
type Verdict struct {
	// Leases is the number of leases of Few, and Messages the number of deliveries of Paced.
	Leases, Messages int
	// Windows has the messages of Paced in each window of 10 s.
	Windows []int
	// Broken are the broken rules.
	Broken []string
}

// String returns the verdict as one line.
func (v Verdict) String() string {
	return fmt.Sprintf("%d leases with at most %d at a time; %d messages at %d/s, each 10 s: %s",
		v.Leases, Concurrency, v.Messages, Rate.Messages, strings.Trim(fmt.Sprint(v.Windows), "[]"))
}

// sqlPlaces counts the groups that have no room although all their leases have ended.
const sqlPlaces = `SELECT count(*) FROM belfry.consumer_group g WHERE g.limits_id IS NOT NULL AND belfry.limited_until(g.id, g.limits_id) > clock_timestamp() + $1::interval`

// LeasesEnd is the time after which the leases of the clients have ended.
const LeasesEnd = 2 * leaseTime

// Judge judges the leases. All leases have ended. The windows of the verdict are between two instants.
func Judge(ctx context.Context, database *pgxpool.Pool, from, to time.Time) (v Verdict, err error) {
	few, err := limitcheck.Read(ctx, database, Few)
	if err != nil {
		return v, err
	}
	paced, err := limitcheck.Read(ctx, database, Paced)
	if err != nil {
		return v, err
	}
	v.Leases = len(few)
	for _, l := range paced {
		v.Messages += l.Messages
	}
	v.Windows = limitcheck.Windows(paced, from, to, 10*time.Second)
	v.Broken = append(limitcheck.Concurrency(few, limitcheck.Change{Concurrency: Concurrency}), limitcheck.Rate(paced, Rate)...)
	var full int
	if err := database.QueryRow(ctx, sqlPlaces, Rate.Per).Scan(&full); err != nil {
		return v, fmt.Errorf("counting groups without room: %w", err)
	}
	if full > 0 {
		v.Broken = append(v.Broken, fmt.Sprintf("leaked: %d groups have no room although no lease is live", full))
	}
	return v, nil
}

// Delivered returns the number of leases of both groups so far.
func Delivered(ctx context.Context, database *pgxpool.Pool) (few, paced int, err error) {
	err = database.QueryRow(ctx, `SELECT count(*) FILTER (WHERE g.name = $1), count(*) FILTER (WHERE g.name = $2)
		FROM limitcheck.lease_change c JOIN belfry.consumer_group g ON g.id = c.group_id`, Few, Paced).Scan(&few, &paced)
	if err != nil {
		return 0, 0, fmt.Errorf("counting leases: %w", err)
	}
	return few, paced, nil
}
