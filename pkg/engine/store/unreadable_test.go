package store_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// pushUnreadable pushes a message that Postgres cannot read.
func (b *bench) pushUnreadable(partition string) {
	b.t.Helper()
	noise := make([]byte, 50_000)
	_, _ = rand.Read(noise)
	payload, err := json.Marshal(noise)
	require.NoError(b.t, err)
	_, err = b.Push(b.t.Context(), []queue.PushItem{{Queue: "q", Partition: partition, TransactionID: "unreadable", Payload: payload}})
	require.NoError(b.t, err)
	pgtest.DamagePayloads(b.t, b.pool.Config().ConnString())
}

// If the oldest message of a group cannot be read, the group receives its other messages, with
// every route to a claim.
func TestAnUnreadableMessageDoesNotBlockItsGroup(t *testing.T) {
	t.Parallel()
	for name, pop := range map[string]func(*bench, *queue.PopRequest) queue.Delivery{
		"pop": (*bench).pop,
		"round": func(b *bench, req *queue.PopRequest) queue.Delivery {
			target := b.resolve(req)
			delivery := b.claim(req, target)
			if delivery.Contested {
				return b.pop(req)
			}
			return delivery
		},
	} {
		for _, autoAck := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, autoAck %t", name, autoAck), func(t *testing.T) {
				b := newBench(t, "g")
				b.pushUnreadable("damaged")
				for _, partition := range []string{"a", "b", "c"} {
					b.push(partition, partition)
				}
				req := request("g", 10, across(2), withAutoAck(autoAck))
				var got []string
				for len(got) < 3 {
					d := pop(b, req)
					require.NotEmpty(t, d.Messages)
					got = append(got, transactionIDs(d)...)
				}
				require.ElementsMatch(t, []string{"a", "b", "c"}, got)
				require.Zero(t, b.stranded())
			})
		}
	}
}

// The readable messages before an unreadable message are delivered, with every route to a claim. Only the next pop
// fails.
func TestTheMessagesBeforeAnUnreadableOneAreDelivered(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		for _, byRound := range []bool{false, true} {
			t.Run(fmt.Sprintf("autoAck %t, round %t", autoAck, byRound), func(t *testing.T) {
				b := newBench(t, "g")
				b.push("damaged", "1", "2", "3")
				b.pushUnreadable("damaged")
				b.push("damaged", "behind")
				req := request("g", 10, withAutoAck(autoAck))
				target := b.resolve(req)
				b.scan(`SELECT id FROM belfry.partition WHERE name = 'damaged'`, nil, &target.Partition)
				take := func() (queue.Delivery, error) {
					if !byRound {
						return b.Pop(t.Context(), req)
					}
					deliveries, err := b.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}})
					if err != nil {
						return queue.Delivery{}, err
					}
					return deliveries[0], nil
				}
				var got []string
				for len(got) < 3 {
					d, err := take()
					require.NoError(t, err)
					require.NotEmpty(t, d.Messages)
					got = append(got, transactionIDs(d)...)
					if !autoAck {
						b.ack(d, queue.AckCompleted, d.Messages...)
					}
				}
				require.Equal(t, []string{"1", "2", "3"}, got)
				_, err := take()
				require.Equal(t, queue.CodeUndeliverable, queue.CodeOf(err))
				b.exec(`SELECT belfry.delete_message(id, 'unreadable') FROM belfry.partition WHERE name = 'damaged'`)
				b.retryNow()
				d, err := take()
				require.NoError(t, err)
				require.Equal(t, []string{"behind"}, transactionIDs(d))
				require.Zero(t, b.stranded())
			})
		}
	}
}

// A pop that finds only an unreadable message returns an error. A claim of its partition returns an
// error too. The partition is due again after a minute, or when an operator deletes the message.
func TestAnUnreadableMessageIsTriedAgain(t *testing.T) {
	b := newBench(t, "g", "h")
	b.pushUnreadable("damaged")
	_, err := b.Pop(t.Context(), request("g", 1))
	require.Equal(t, queue.CodeUndeliverable, queue.CodeOf(err))
	d := b.pop(request("g", 1))
	require.Empty(t, d.Messages)
	require.True(t, d.HasNext)
	require.InDelta(t, time.Minute, d.NextIn, float64(10*time.Second))

	req := request("h", 1)
	target := b.resolve(req)
	b.scan(`SELECT id FROM belfry.partition WHERE name = 'damaged'`, nil, &target.Partition)
	_, err = b.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}})
	require.Equal(t, queue.CodeUndeliverable, queue.CodeOf(err))
	require.Empty(t, b.pop(req).Messages)

	b.retryNow()
	_, err = b.Pop(t.Context(), request("g", 1))
	require.Equal(t, queue.CodeUndeliverable, queue.CodeOf(err))
	b.push("damaged", "next")
	b.exec(`SELECT belfry.delete_message(id, 'unreadable') FROM belfry.partition WHERE name = 'damaged'`)
	for _, group := range []string{"g", "h"} {
		require.Equal(t, []string{"next"}, transactionIDs(b.pop(request(group, 1))))
	}
}

// If Postgres cannot read a row, the error is never an error of the client. It names the partition. If
// the claim shares a round trip with other claims, the error code tells the caller to repeat the claims
// separately.
func TestARowThatCannotBeReadIsNotAnErrorOfTheClient(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"22P02", "22021", "54001", "58030", "58P01"} {
		t.Run(state, func(t *testing.T) {
			b := newBench(t, "g", "h")
			b.push("bad", "bad")
			b.push("good", "good")
			b.exec(`CREATE OR REPLACE FUNCTION belfry.delivery_bytes(payload json, transaction_id text, producer_sub text, headers json, exact boolean)
				RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
				IF transaction_id = 'bad' THEN RAISE SQLSTATE '` + state + `'; END IF; RETURN 1; END $$`)
			req := request("g", 1)
			target := b.resolve(req)
			other := request("h", 1)
			second := b.resolve(other)
			_, err := b.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}, {Request: other, Target: second}})
			require.Equal(t, queue.CodeUndeliverable, queue.CodeOf(err))

			require.Equal(t, []string{"good"}, transactionIDs(b.pop(req)))
			b.retryNow()
			_, err = b.Pop(t.Context(), req)
			require.Equal(t, queue.CodeUndeliverable, queue.CodeOf(err))
			require.Equal(t, state, postgres.SQLState(err))
			var coded *queue.Error
			require.ErrorAs(t, err, &coded)
			require.Contains(t, coded.Message, `queue "q", partition "bad" (SQLSTATE `+state+`)`)
		})
	}
}
