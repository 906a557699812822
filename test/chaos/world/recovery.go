package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/httpcall"
)

const (
	// probeQueue is the queue of the recovery probes. It is not part of the history.
	probeQueue = "chaos-probe"
	// recoveryBound is the maximum time of a recovery after a fault. It is the sum of the times to notice a silent
	// peer and a silent connection, the timeout of an open request, and the timeout of a probe.
	recoveryBound = peerTimeout + canaryInterval + canaryTimeout + requestTimeout + probeTimeout + machinePause
	// machinePause is added to time limits, because the machine may be busy.
	machinePause  = 10 * time.Second
	probeTimeout  = 5 * time.Second
	probeWait     = 2 * time.Second
	recoveryPause = 20 * time.Millisecond
)

// ErrLate is in the chain of each error that reports only a broken time limit.
var ErrLate = errors.New("too late")

// Recover waits until every server is healthy and its listener is proven, and until a message pushed at each server
// reaches a consumer that waits at the next server. It returns an error if a server has died, or ErrLate after
// recoveryBound.
func (w *World) Recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryBound)
	defer cancel()
	client := &http.Client{Transport: principals.Transport(principals.Operator, &http.Transport{})}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(recoveryPause)
	defer ticker.Stop()
	for i := range w.servers {
		for {
			err := w.died()
			if err != nil {
				return err
			}
			if err = w.works(ctx, client, i); err == nil {
				break
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("%s did not recover within %s: %w: %s", w.servers[i].name, recoveryBound, ErrLate, err.Error())
			}
		}
	}
	return nil
}

func (w *World) died() error {
	var errs []error
	for _, s := range w.servers {
		s.busy.Lock()
		errs = append(errs, s.died())
		s.busy.Unlock()
	}
	return errors.Join(errs...)
}

// works probes one server together with the next server.
func (w *World) works(ctx context.Context, client *http.Client, i int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	here, next := w.URLs()[i], w.URLs()[(i+1)%len(w.servers)]
	health, err := ask(ctx, client, request{http.MethodGet, here + "/health", "", http.StatusOK})
	if err != nil {
		return err
	}
	var state struct {
		Listener struct{ State string }
	}
	if err := json.Unmarshal(health, &state); err != nil {
		return fmt.Errorf("reading the health of %s: %w", w.servers[i].name, err)
	}
	if state.Listener.State != "proven" {
		return fmt.Errorf("the listener of %s is %s", w.servers[i].name, state.Listener.State)
	}
	// The probe of each server uses a separate partition, so that probes do not receive each other's messages.
	push := fmt.Sprintf(`{"items":[{"queue":%q,"partition":%q}]}`, probeQueue, w.servers[i].name)
	pop := fmt.Sprintf("%s/api/v1/pop/queue/%s/partition/%s?wait=true&timeout=%d&autoAck=true",
		next, probeQueue, w.servers[i].name, probeWait.Milliseconds())
	// The pop starts before the push, so that usually a wake delivers the message.
	popped := make(chan error, 1)
	go func() {
		_, err := ask(ctx, client, request{http.MethodGet, pop, "", http.StatusOK})
		popped <- err
	}()
	_, err = ask(ctx, client, request{http.MethodPost, here + "/api/v1/push", push, http.StatusCreated})
	return errors.Join(err, <-popped)
}

// request is a request and the status of its expected answer.
type request struct {
	method, url, body string
	status            int
}

// ask sends a request and returns the body of an answer with the expected status.
func ask(ctx context.Context, client *http.Client, r request) ([]byte, error) {
	got, err := httpcall.Send(ctx, client, r.url, httpcall.Call{Method: r.method, Body: r.body})
	if err == nil && got.Status != r.status {
		err = fmt.Errorf("%s %s: status %d: %.200s", r.method, r.url, got.Status, got.Raw)
	}
	return got.Raw, err
}
