package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

const (
	// rightsEnd is how long a request may still wait after its token was revoked or has expired.
	rightsEnd = 500 * time.Millisecond
	// rightsGone is how long messages may still be delivered after a revocation was acknowledged.
	rightsGone = time.Second
)

// revoke revokes a token in the same way as `belfry token revoke`.
func revoke(t *testing.T, conn *pgx.Conn, text string) {
	t.Helper()
	content, err := token.Read(text)
	require.NoError(t, err)
	id, _ := content.Claims["jti"].(string)
	require.NoError(t, token.Revoke(t.Context(), conn, id, time.Time{}))
}

// When a token is revoked or expires, every request that waits with it must be answered within 500 ms at each instance. A
// pop gets 401, and a stream gets its last event. These requests must not get messages. Other consumers get the messages.
func TestAWaitEndsWithTheRightsOfItsToken(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"revoked", "expired"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			option, made := withSecret(t)
			var auth token.Config
			exact := func(cfg *config.Config) { cfg.Auth.ClockSkew = 0; auth = cfg.Auth }
			here := startOn(t, pgtest.Database(t), option, exact, proven)
			there := startOn(t, here.dsn, option, exact, proven)
			kept := made("kept", identity.Admin, nil)
			c := tenancy{here.client(t), kept}
			c.do(post("/api/v1/configure", `{"queue":"a.one","namespace":"a","options":{}}`))
			stored := read[[]pushed](t, c.do(post("/api/v1/push", `{"items":[{"queue":"a.one","partition":"p","transactionId":"0","payload":0}]}`))).body
			c.do(remove("/api/v1/messages/" + stored[0].PartitionID + "/0")) // deleted, because on a busy machine a group with subscriptionMode=new may start before this message

			const lifetime = 15 * time.Second // the lifetime of a token that expires; it is long enough to begin all waits
			text, err := token.Sign(auth, token.Request{Role: identity.ReadWrite, Lifetime: lifetime}, token.SecretKey(auth.Secret.Reveal()))
			require.NoError(t, err)
			expires := time.Now().Add(lifetime).Truncate(time.Second)
			if how == "revoked" {
				text = made("other", identity.ReadWrite, nil)
			}
			pops := []string{
				"/api/v1/pop/queue/a.one?", "/api/v1/pop/queue/a.one?batch=100&partitions=10&", "/api/v1/pop/queue/a.one/partition/p?",
				"/api/v1/pop?namespace=a&", "/api/v1/pop/queue/a.one?autoAck=true&", "/api/v1/pop?namespace=a&autoAck=true&",
			}
			var groups []string
			var waits []*pendingCall
			var streams []*stream
			for i, s := range []*server{here, there} {
				for _, target := range pops {
					group := fmt.Sprintf("g%d", len(groups))
					groups = append(groups, group)
					waits = append(waits, s.client(t).begin(call{Method: http.MethodGet, Target: target + "wait=true&timeout=60000&subscriptionMode=new&consumerGroup=" + group, Token: text}))
				}
				group := fmt.Sprintf("s%d", i)
				groups = append(groups, group)
				as := func(target string) call { return call{Method: http.MethodGet, Target: target, Token: text} }
				streams = append(streams, s.openStream(t, as("/api/v1/sse/queue/a.one?subscriptionMode=new&consumerGroup="+group)), s.openStream(t, as("/api/v1/events")),
					s.openStream(t, get("/ui/live"), "Cookie", "belfry_token="+text))
				s.client(t).untilWaiting(len(pops) + 1)
			}
			other := here.client(t).begin(call{Method: http.MethodGet, Target: "/api/v1/pop/queue/a.one?wait=true&timeout=60000&subscriptionMode=new&consumerGroup=kept", Token: kept})
			here.client(t).untilWaiting(len(pops) + 2)

			if how == "revoked" {
				revoke(t, producer(t, here.dsn), text)
			} else {
				<-time.After(time.Until(expires))
			}
			watch := stopwatch.Start(t)
			for i, one := range waits {
				<-one.done
				require.NoError(t, one.err)
				require.Equal(t, http.StatusUnauthorized, one.reply.Status, "%d: %s", i, one.reply.Raw)
				require.JSONEq(t, fmt.Sprintf(`{"error":"Token has %s"}`, map[string]string{"revoked": "been revoked", "expired": "expired"}[how]), string(one.reply.Raw))
			}
			for _, one := range streams {
				rest := one.untilEnd()
				last := rest[len(rest)-1]
				if last.kind != "ended" { // the stream of the dashboard ends with "ended"
					require.Equal(t, "closing", last.kind)
					require.Contains(t, string(last.data), `"unauthorized"`)
				}
			}
			watch.Within(t, rightsEnd, "time until all waits have ended")
			here.client(t).untilWaiting(1)

			c.do(post("/api/v1/push", `{"items":[{"queue":"a.one","partition":"p","transactionId":"m","payload":1}]}`))
			require.Equal(t, []string{"m"}, other.delivery().ok(http.StatusOK).ids(), "a request with another token must continue to wait")
			for _, group := range groups {
				got := read[delivery](t, c.as(kept, get("/api/v1/pop/queue/a.one?batch=10&consumerGroup="+group))).ok(http.StatusOK)
				require.Equal(t, []string{"m"}, got.ids(), group)
				require.Equal(t, 1, got.Messages[0].Attempt, group)
			}
		})
	}
}

// Messages are pushed all the time. No instance may deliver a message with a token later than a second after its revocation
// was acknowledged. Each message must be delivered once: if it was claimed or consumed for the revoked token but not
// delivered, another consumer must get it.
func TestNothingIsDeliveredAfterARevocation(t *testing.T) {
	t.Parallel()
	option, made := withSecret(t)
	here := startOn(t, pgtest.Database(t), option)
	servers := []*server{here, startOn(t, here.dsn, option)}
	conn := producer(t, here.dsn)
	kept := made("kept", identity.Admin, nil)
	c := tenancy{here.client(t), kept}
	c.do(post("/api/v1/configure", `{"queue":"q","options":{"leaseTime":600}}`))

	var mu sync.Mutex
	seen := map[string]map[string]int{} // the number of deliveries by group and message
	note := func(group string, messages []message) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range messages {
			if seen[group] == nil {
				seen[group] = map[string]int{}
			}
			seen[group][m.TransactionID]++
		}
	}
	var revoked atomic.Pointer[stopwatch.Stopwatch]
	groups := map[string]string{"leased": "", "consumed": "&autoAck=true"}
	consume := func(s *server, group, text string) (refused bool) {
		ctx := context.WithoutCancel(t.Context())
		what := get(fmt.Sprintf("/api/v1/pop/queue/q?batch=3&wait=%t&timeout=60000&consumerGroup=%s%s", text != kept, group, groups[group]))
		what.Token = text
		got, err := s.send(ctx, what)
		if err != nil || got.Status == http.StatusUnauthorized {
			return true
		}
		var d delivery
		if got.Status != http.StatusOK || json.Unmarshal(got.Raw, &d) != nil {
			return false
		}
		if since := revoked.Load(); since != nil && text != kept && since.Elapsed() > since.Allowed(rightsGone) {
			t.Errorf("messages were delivered %s after the revocation", since.Elapsed())
		}
		note(group, d.Messages)
		if d.LeaseID == "" {
			return false
		}
		acks := make([]ackItem, len(d.Messages))
		for i, m := range d.Messages {
			acks[i] = ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: "completed"}
		}
		ack := ackBatchCall(group, acks...)
		ack.Token = kept
		if got, err := s.send(ctx, ack); err != nil || got.Status != http.StatusOK {
			t.Errorf("an ack failed: %v %s", err, got.Raw)
		}
		return false
	}
	pushed := 0
	push := func() {
		what := post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"q","partition":"p%d","transactionId":"m%d","payload":1}]}`, pushed%7, pushed))
		what.Token = kept
		got, err := servers[pushed%2].send(t.Context(), what)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, got.Status)
		pushed++
	}
	delivered := func() int {
		mu.Lock()
		defer mu.Unlock()
		return min(len(seen["leased"]), len(seen["consumed"]))
	}
	for range 5 {
		text := made("consumer", identity.ReadWrite, nil)
		revoked.Store(nil)
		var consuming sync.WaitGroup
		for i := range 8 {
			for group := range groups {
				consuming.Go(func() {
					for !consume(servers[i%2], group, text) {
					}
				})
			}
		}
		for enough := delivered() + 50; delivered() < enough; {
			push()
		}
		var revoking sync.WaitGroup
		revoking.Go(func() { revoke(t, conn, text) })
		for range 4 {
			push()
		}
		revoking.Wait()
		since := stopwatch.Start(t)
		revoked.Store(since)
		until(t, "the time allowed for late deliveries is over", func() bool { return since.Elapsed() > since.Allowed(rightsGone)+rightsEnd })
		for range 30 { // these messages end the remaining waits
			push()
		}
		consuming.Wait()
	}
	until(t, "all messages are delivered", func() bool {
		for group := range groups {
			consume(here, group, kept)
		}
		return delivered() >= pushed
	})
	for group := range groups {
		require.Len(t, seen[group], pushed, group)
		for id, n := range seen[group] {
			require.Equal(t, 1, n, "%s of %s", id, group)
		}
	}
}
