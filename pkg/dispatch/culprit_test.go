package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

var (
	errUnreadable = &queue.Error{Code: queue.CodeUndeliverable, Message: "Postgres cannot read a message"}
	errLost       = &queue.Error{Code: queue.CodeUnavailable, Message: "the database is away"}
)

// claimsPartition reports whether one of the claims is for the partition.
func claimsPartition(assignments []queue.Assignment, partition int64) bool {
	return slices.ContainsFunc(assignments, func(a queue.Assignment) bool { return a.Target.Partition == partition })
}

// outcomes counts the answers with messages and the errors. All requests must be answered.
func outcomes(t *testing.T, outs []<-chan answer) (delivered int, errs []error) {
	t.Helper()
	for _, out := range outs {
		if a := answered(t, out); a.err != nil {
			errs = append(errs, a.err)
		} else if len(a.Messages) > 0 {
			delivered++
		}
	}
	return delivered, errs
}

// gatherRound begins n requests and commits one message in each of the partitions. It then calls change, and one round serves all
// these requests. Until then a round for group 2 occupies the only worker.
func (b *harness) gatherRound(n, partitions int, change func(*fakeStore)) []<-chan answer {
	b.t.Helper()
	b.store.resolve = func(req *queue.PopRequest) (queue.Target, bool, error) {
		if req.Queue == "other" {
			return queue.Target{Group: 2}, true, nil
		}
		return targetOf(req), true, nil
	}
	outs := b.many(n)
	other := request(time.Hour)
	other.Queue = "other"
	first := b.begin(b.t.Context(), other)
	pending(b.t, first)
	release := b.holdNextRound()
	b.ready(2, 1, 1)
	synctest.Wait()
	for p := range partitions {
		b.ready(1, int64(p+1), 1)
	}
	synctest.Wait()
	b.store.change(func(f *fakeStore) {
		f.onPreflight, f.onClaim, f.statements = nil, nil, nil
		change(f)
	})
	release()
	delivered(b.t, first)
	return outs
}

// One claim of 200 is refused. The requests with the other claims get their messages at once.
func TestOneRefusedClaimFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		outs := b.gatherRound(200, 200, func(f *fakeStore) {
			f.onClaim = func(assignments []queue.Assignment) error {
				if claimsPartition(assignments, 77) {
					return errUnreadable
				}
				return nil
			}
		})
		got, errs := outcomes(t, outs)
		require.Equal(t, 199, got)
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], errUnreadable)
		require.LessOrEqual(t, b.store.count(), 2+2*8, "two statements for each time that 200 claims are halved")
	})
}

// The other requests of the target probe later, so they do not get the same error one after the other.
func TestARefusedClaimIsNotGivenToEachWaitingRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		outs := b.gatherRound(10, 1, func(f *fakeStore) {
			f.onClaim = func([]queue.Assignment) error { return errUnreadable }
		})
		time.Sleep(500 * ms)
		failed := 0
		for _, out := range outs {
			select {
			case a := <-out:
				require.ErrorIs(t, a.err, errUnreadable)
				failed++
			default:
			}
		}
		require.Equal(t, 1, failed)
		b.store.change(func(f *fakeStore) { f.onClaim = nil })
		time.Sleep(time.Second)
		got := 0
		for _, out := range outs {
			select {
			case <-out:
				got++
			default:
			}
		}
		require.Equal(t, 1, got, "a second request probes after a second")
	})
}

func TestOneRefusedTargetOfAPreflightFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		outs := b.startAll(groups(b.store, 20))
		release := b.holdNextRound()
		b.ready(1, 1, 1)
		synctest.Wait()
		for g := int64(2); g <= 20; g++ {
			b.ready(g, 1, 1)
		}
		synctest.Wait()
		b.store.change(func(f *fakeStore) {
			f.onPreflight = func(probes []queue.Probe, _ time.Duration) error {
				if slices.ContainsFunc(probes, func(p queue.Probe) bool { return p.Target.Group == 7 }) {
					return errUnreadable
				}
				return nil
			}
		})
		release()
		require.ErrorIs(t, answered(t, outs[6]).err, errUnreadable)
		got, errs := outcomes(t, slices.Delete(outs, 6, 7))
		require.Equal(t, 19, got)
		require.Empty(t, errs)
	})
}

// If the connection is lost, every statement fails, so the claims are not halved.
func TestALostConnectionIsNotHalved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		outs := b.gatherRound(50, 50, func(f *fakeStore) {
			f.onClaim = func([]queue.Assignment) error { return errLost }
		})
		got, errs := outcomes(t, outs)
		require.Zero(t, got)
		require.Len(t, errs, 50)
		require.Equal(t, 2, b.store.count(), "a preflight and the claims")
	})
}

// If the connection is lost while the claims are halved, the halving ends and the remaining claims are not tried.
func TestAConnectionLostWhileHalvingFailsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		tries := 0
		outs := b.gatherRound(8, 8, func(f *fakeStore) {
			f.onClaim = func(assignments []queue.Assignment) error {
				tries++
				switch {
				case len(assignments) > 2:
					return errUnreadable
				case tries == 3:
					return nil
				default:
					return errLost
				}
			}
		})
		got, errs := outcomes(t, outs)
		require.Equal(t, 2, got)
		require.Len(t, errs, 6)
		for _, err := range errs {
			require.ErrorIs(t, err, errLost)
		}
		require.Equal(t, 5, b.store.count(), "a preflight, and 8, 4, 2 and 2 claims")
	})
}

// If a claim finds only a payload that cannot be decrypted, the waiting request gets the error. The store has already made the
// partition due later.
func TestAWaitingRequestGetsTheErrorOfAMessageThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n, " requests"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				errUnopened := &queue.Error{Code: queue.CodeUndeliverable, Message: "message 1 cannot be opened"}
				b := run(t, &fakeStore{unopened: errUnopened}, oneWorker)
				outs := b.gatherRound(n, n, func(f *fakeStore) {
					f.onClaim = func([]queue.Assignment) error { f.steal(1); return nil }
				})
				got, errs := outcomes(t, outs)
				require.Equal(t, n-1, got)
				require.Equal(t, []error{errUnopened}, errs)
			})
		})
	}
}

// A round makes no claim for a request whose time is up, or whose client has left.
func TestRoundsDropExpiredAndLeftRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		reqs := groups(b.store, 4)
		reqs[1].Wait = time.Minute
		outs := b.startAll(reqs[:2])
		ctx, leave := context.WithCancel(t.Context())
		outs = append(outs, b.begin(ctx, reqs[2]))
		pending(t, outs[2])
		outs = append(outs, b.startAll(reqs[3:])...)
		before := b.store.count()
		release := b.holdNextRound()
		for g := int64(1); g <= 4; g++ {
			b.ready(g, 1, 1)
			synctest.Wait()
		}
		leave()
		time.Sleep(2 * time.Minute)
		release()
		delivered(t, outs[0])
		expired := answered(t, outs[1])
		require.NoError(t, expired.err)
		require.Empty(t, expired.Messages)
		require.ErrorIs(t, answered(t, outs[2]).err, context.Canceled)
		delivered(t, outs[3])
		require.Equal(t, before+2, b.store.count(), "one claim for each of the two other requests")
	})
}

// A panic fails the requests of its round. The worker continues.
func TestAPanicInARoundFailsItsRequests(t *testing.T) {
	t.Parallel()
	for name, breakIn := range map[string]func(*fakeStore){
		"preflight": func(f *fakeStore) { f.onPreflight = func([]queue.Probe, time.Duration) error { panic("a mistake") } },
		"claim":     func(f *fakeStore) { f.onClaim = func([]queue.Assignment) error { panic("a mistake") } },
		"pop after a lost race": func(f *fakeStore) {
			f.onClaim = func([]queue.Assignment) error { f.steal(1, 2); return nil }
			f.onPop = func(*queue.PopRequest) error { panic("a mistake") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{}, oneWorker)
				outs := b.gatherRound(2, 2, breakIn)
				got, errs := outcomes(t, outs)
				require.Zero(t, got)
				require.Len(t, errs, 2)
				for _, err := range errs {
					require.Equal(t, queue.CodeInternal, queue.CodeOf(err))
					require.ErrorContains(t, err, "a mistake")
				}
				require.Positive(t, b.logs.FilterMessageSnippet("panicked").Len())
				b.store.change(func(f *fakeStore) { f.onPreflight, f.onClaim, f.onPop = nil, nil, nil })
				after := b.begin(t.Context(), request(time.Hour))
				b.ready(1, 3, 1)
				delivered(t, after)
			})
		})
	}
}
