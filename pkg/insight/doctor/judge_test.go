package doctor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/compatibility.md has each version of Postgres with the last day of its fixes. The warning begins on the day after.
func TestVersionsOfPostgres(t *testing.T) {
	page, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)
	for major := int64(oldestPostgres / 10000); major <= newestPostgres/10000; major++ {
		last := lastSupport[major]
		require.Contains(t, string(page), fmt.Sprintf("\n| %d | %s |", major, last))
		day, err := time.Parse(time.DateOnly, last)
		require.NoError(t, err)
		for now, want := range map[time.Time]string{day: OK, day.AddDate(0, 0, 1): Warning} {
			o := judgeVersion(&exam{Config: Config{Now: func() time.Time { return now }}}, &facts{version: major * 10000})
			require.Equal(t, want, o.result, "%d on %s", major, now)
		}
	}
}

// Some states of a database are hard to make in a test. So the test calls the judging functions with facts.
func TestFactsAreJudged(t *testing.T) {
	const million = 1_000_000
	good := facts{version: 150000, maxConnections: 100, reserved: 3, used: 10, databaseLimit: -1, roleLimit: -1}
	for _, c := range []struct {
		name  string
		judge func(e *exam, f *facts) outcome
		spoil func(f *facts)
		want  string
	}{
		{"tested version", judgeVersion, func(*facts) {}, OK},
		{"old version", judgeVersion, func(f *facts) { f.version = 139999 }, Wrong},
		{"new version", judgeVersion, func(f *facts) { f.version = 190000 }, Warning},
		{"version without fixes", judgeVersion, func(f *facts) { f.version = 140020 }, Warning},
		{"newest version", judgeVersion, func(f *facts) { f.version = 180004 }, OK},
		{"standby", judgeVersion, func(f *facts) { f.standby = true }, Wrong},
		{"empty queue", judgeNotifications, func(*facts) {}, OK},
		{"queue in use", judgeNotifications, func(f *facts) { f.notificationQueue = 0.2 }, Warning},
		{"queue almost full", judgeNotifications, func(f *facts) { f.notificationQueue = 0.6 }, Wrong},
		{"young ids", judgeTransactionIDs, func(f *facts) { f.transactionAge = 300 * million }, OK},
		{"old ids", judgeTransactionIDs, func(f *facts) { f.transactionAge = 1200 * million }, Warning},
		{"very old ids", judgeTransactionIDs, func(f *facts) { f.transactionAge = 1800 * million }, Wrong},
		{"room for two instances", judgeConnections, func(f *facts) { f.instances = 2 }, OK},
		{"no room for four instances", judgeConnections, func(f *facts) { f.instances = 4 }, Wrong},
		{"almost all in use", judgeConnections, func(f *facts) { f.used = 90 }, Warning},
		{"limit of the database", judgeConnections, func(f *facts) { f.databaseLimit = 20 }, Wrong},
		{"limit of the database for a superuser", judgeConnections, func(f *facts) { f.databaseLimit, f.superuser = 20, true }, OK},
	} {
		f := good
		c.spoil(&f)
		now := func() time.Time { return time.Date(2026, time.November, 27, 0, 0, 0, 0, time.UTC) }
		o := c.judge(&exam{Config: Config{PerInstance: 30, Now: now}}, &f)
		require.Equal(t, c.want, o.result, "%s: %s", c.name, o.found)
		require.Equal(t, o.result == OK, len(o.do) == 0, c.name)
	}
}

func TestBloat(t *testing.T) {
	for _, c := range []struct {
		table table
		want  string
	}{
		{table{name: "cursor", live: 10, dead: 499_999}, ""},
		{table{name: "cursor", live: 10, dead: 500_000}, "belfry.cursor has 500000 dead and 10 live rows and was never vacuumed"},
		{table{name: "message", live: 2_500_001, dead: 500_000}, ""},
		{table{name: "inbox", dead: 500_000, vacuumed: 599}, ""},
		{table{name: "inbox", dead: 500_000, vacuumed: 7200}, "belfry.inbox has 500000 dead and 0 live rows and was last vacuumed 2h0m0s ago"},
	} {
		require.Equal(t, c.want, bloat(&c.table))
	}
}

func TestRoom(t *testing.T) {
	const gib = 1 << 30
	for want, rooms := range map[string][][2]uint64{
		OK:      {{3 * gib, 20 * gib}, {40 * gib, 1000 * gib}},
		Warning: {{gib, 5 * gib}, {20 * gib, 1000 * gib}},
		Wrong:   {{gib / 4, gib}},
	} {
		for _, room := range rooms {
			require.Equal(t, want, judgeRoom("/a", room[0], room[1]).result, room)
		}
	}
}

func TestAServerIsExamined(t *testing.T) {
	healthy := func() error { return nil }
	for _, c := range []struct {
		addr          string
		authenticated bool
		want          string
	}{
		{"127.0.0.1:1", false, OK}, {"[::1]:1", false, OK}, {"0.0.0.0:1", false, Warning}, {"[::]:1", false, Warning}, {"[::]:1", true, OK},
	} {
		addr, err := net.ResolveTCPAddr("tcp", c.addr)
		require.NoError(t, err)
		require.Equal(t, c.want, checkPort(&Process{Addr: addr, Authenticated: c.authenticated}).result, c.addr)
	}
	require.NotEqual(t, Unknown, checkSpoolDisk(&Process{SpoolDir: t.TempDir(), SpoolHealthy: healthy}).result)
	dir := t.TempDir()
	o := checkSpoolDisk(&Process{SpoolDir: filepath.Join(dir, "not", "yet"), SpoolHealthy: healthy})
	require.Contains(t, o.found, "The disk of "+dir+" has ")
	require.Equal(t, Warning, checkSpoolDisk(&Process{SpoolHealthy: func() error { return errors.New("read-only") }}).result)
}
