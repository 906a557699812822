package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// arranged returns the order of the hosts of a new attempt to connect, and the time of each host.
func arranged(t *testing.T, o *hostOrder) (hosts []string, each time.Duration) {
	t.Helper()
	config, err := pgx.ParseConfig("postgres://u@a,b,c/d?sslmode=disable&connect_timeout=2")
	require.NoError(t, err)
	o.arrange(config)
	hosts = []string{config.Host}
	for _, one := range config.Fallbacks {
		hosts = append(hosts, one.Host)
	}
	return hosts, config.ConnectTimeout
}

func TestTheLatestPrimaryIsTriedFirstAndASlowHostLast(t *testing.T) {
	o := &hostOrder{}
	hosts, _ := arranged(t, o)
	require.Equal(t, []string{"a", "b", "c"}, hosts)
	o.accept(hostKey{"b", 5432})
	hosts, _ = arranged(t, o)
	require.Equal(t, []string{"b", "a", "c"}, hosts)
	o.note(hostKey{"b", 5432}, true)
	hosts, _ = arranged(t, o)
	require.Equal(t, []string{"a", "c", "b"}, hosts)
	o.note(hostKey{"b", 5432}, false)
	o.note(hostKey{"a", 5432}, true)
	hosts, _ = arranged(t, o)
	require.Equal(t, []string{"b", "c", "a"}, hosts)
	o.accept(hostKey{"a", 5432})
	hosts, _ = arranged(t, o)
	require.Equal(t, []string{"a", "b", "c"}, hosts)
}

// If every login takes longer than the part of one host, some attempts must have more time.
func TestEverySecondAttemptIsPatientAfterATimeWithoutSuccess(t *testing.T) {
	const share, all = 2 * time.Second, 5 * time.Second
	o := &hostOrder{patience: all}
	for _, want := range []time.Duration{share, all, share, all} {
		_, each := arranged(t, o)
		require.Equal(t, want, each)
	}
	o.accept(hostKey{"a", 5432})
	for range 4 {
		_, each := arranged(t, o)
		require.Equal(t, share, each)
	}
	o.accepted = time.Now().Add(-2 * all)
	_, first := arranged(t, o)
	_, second := arranged(t, o)
	require.Equal(t, share+all, first+second)
	o.patience = 0 // the URL has a connect_timeout
	_, first = arranged(t, o)
	_, second = arranged(t, o)
	require.Equal(t, 2*share, first+second)
}
