package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// watched returns a log and a channel that closes with the first entry.
func watched() (*zap.Logger, *observer.ObservedLogs, <-chan struct{}) {
	core, logs := observer.New(zap.DebugLevel)
	first, once := make(chan struct{}), sync.Once{}
	log := zap.New(core, zap.Hooks(func(zapcore.Entry) error {
		once.Do(func() { close(first) })
		return nil
	}))
	return log, logs, first
}

// requireDiscreet requires that no log entry contains the password.
func requireDiscreet(t *testing.T, logs *observer.ObservedLogs) {
	t.Helper()
	for _, entry := range logs.All() {
		for _, value := range entry.ContextMap() {
			if text, ok := value.(string); ok {
				require.NotContains(t, text, "s3cret")
			}
		}
	}
}

func TestWaitTimesOutWithAClearError(t *testing.T) {
	t.Parallel()
	hung, _ := refusing(t, "")
	starting, _ := refusing(t, "57P03")
	for name, address := range map[string]string{"no server": unusedAddress(t), "no answer": hung, "still starting": starting} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := open(t, config("postgres://u:s3cret@"+address+"/d?sslmode=disable"))
			log, logs, _ := watched()
			const timeout = 400 * time.Millisecond
			began := time.Now()
			err := pool.Wait(soon(t), timeout, log)
			require.GreaterOrEqual(t, time.Since(began), timeout)
			require.ErrorContains(t, err, "the database at "+address+" did not answer within 400ms")
			require.ErrorContains(t, err, "database.start_timeout")
			require.ErrorContains(t, err, "database.url")
			require.NotContains(t, err.Error(), "s3cret")
			requireDiscreet(t, logs)
		})
	}
}

// Wait waits while the state is temporary. A permanent state is an error at once.
func TestPermanentErrorsEndTheWaitAtOnce(t *testing.T) {
	t.Parallel()
	for state, temporary := range map[string]bool{
		"57P01": true, "57P02": true, "57P03": true, "53300": true, "08P01": true,
		"28P01": false, "28000": false, "3D000": false, "42501": false,
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			address, sessions := refusing(t, state)
			pool := open(t, config("postgres://u:s3cret@"+address+"/d?sslmode=disable"))
			log, logs, _ := watched()
			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			if temporary {
				go func() { // three attempts
					for range 3 {
						<-sessions
					}
					cancel()
				}()
			}
			err := pool.Wait(ctx, patience, log)
			if temporary {
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorContains(t, err, "waiting for the database at "+address)
				require.GreaterOrEqual(t, logs.Len(), 2)
				return
			}
			require.Equal(t, state, postgres.SQLState(err))
			require.ErrorContains(t, err, address)
			require.ErrorContains(t, err, "database.url")
			require.NotContains(t, err.Error(), "SQLSTATE")
			require.NotContains(t, err.Error(), "s3cret")
			require.Len(t, sessions, 1, "one attempt")
			require.Zero(t, logs.Len(), "Wait did not wait")
		})
	}
}

func TestWrongDatabaseNameFailsAtOnce(t *testing.T) {
	cc, err := pgx.ParseConfig(database(t))
	require.NoError(t, err)
	pool := open(t, config(strings.Replace(cc.ConnString(), cc.Database, "no_such_database", 1)))
	log, logs, _ := watched()
	err = pool.Wait(soon(t), patience, log)
	require.Equal(t, "3D000", postgres.SQLState(err))
	require.ErrorContains(t, err, `the database "no_such_database" does not exist`)
	require.ErrorContains(t, err, "correct database.url")
	require.Zero(t, logs.Len())
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	address := unusedAddress(t)
	pool := open(t, config("postgres://u:s3cret@"+address+"/d"))
	log, _, waiting := watched()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-waiting
		cancel()
	}()
	err := pool.Wait(ctx, time.Hour, log)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, address)
}
