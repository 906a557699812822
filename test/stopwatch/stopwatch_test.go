package stopwatch_test

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/test/stopwatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pauseSelf stops this process for some seconds, as a busy machine may. A shell continues the process.
func pauseSelf(t *testing.T, seconds string) {
	t.Helper()
	wake := exec.CommandContext(t.Context(), "sh", "-c", `sleep "$0"; kill -CONT "$1"`, seconds, strconv.Itoa(os.Getpid()))
	require.NoError(t, wake.Start())
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	require.NoError(t, wake.Wait())
}

func TestAPauseOfTheMachineExtendsTheLimit(t *testing.T) {
	watch := stopwatch.Start(t)
	pauseSelf(t, "1.5")
	require.Greater(t, watch.Elapsed(), 1400*time.Millisecond)
	watch.Within(t, 200*time.Millisecond, "the process was stopped")
}

// failing records that Within failed its test.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Errorf(string, ...any) { f.failed = true }
func (f *failing) FailNow()              {}

func TestASlowAnswerFailsOnAnIdleMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // virtual time loses no time, like an idle machine
		watch := stopwatch.Start(t)
		<-time.After(time.Second)
		verdict := &failing{TB: t}
		watch.Within(verdict, 1001*time.Millisecond, "an answer in time")
		require.False(t, verdict.failed)
		watch.Within(verdict, 999*time.Millisecond, "an answer that is late")
		require.True(t, verdict.failed)
	})
}
