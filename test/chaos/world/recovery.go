package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// ProbeQueue is what recovery is tried out with; it belongs to no history.
	ProbeQueue = "chaos-probe"
	// RecoveryBound is how long after the end of a fault everything may take to
	// work again: a silent peer and a silent connection are noticed one after the
	// other, a request that was sent meanwhile takes its timeout, and a client of
	// ours too.
	RecoveryBound = peerTimeout + canaryInterval + canaryTimeout + requestTimeout + probeTimeout + machinePause
	// machinePause is what a busy machine may add.
	machinePause  = 10 * time.Second
	probeTimeout  = 5 * time.Second
	probeWait     = 2 * time.Second
	recoveryPause = 20 * time.Millisecond
)

// Recover waits until every server is healthy, its listener has proven itself,
// and a message pushed at each reaches a consumer that waits at the next. It
// fails when a server has died by itself, or after RecoveryBound.
func (w *World) Recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, RecoveryBound)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{}}
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
				return fmt.Errorf("%s did not recover: %w", w.servers[i].name, err)
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

// works tries one server out, together with the next.
func (w *World) works(ctx context.Context, client *http.Client, i int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	here, next := w.URLs()[i], w.URLs()[(i+1)%len(w.servers)]
	health, err := ask(ctx, client, http.MethodGet, here+"/health", "", http.StatusOK)
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
	// Every server has a partition of its own, so that one probe takes nothing from
	// another.
	push := fmt.Sprintf(`{"items":[{"queue":%q,"partition":%q}]}`, ProbeQueue, w.servers[i].name)
	pop := fmt.Sprintf("%s/api/v1/pop/queue/%s/partition/%s?wait=true&timeout=%d&autoAck=true",
		next, ProbeQueue, w.servers[i].name, probeWait.Milliseconds())
	// The consumer comes first, so that it is mostly woken, and does not just look.
	popped := make(chan error, 1)
	go func() {
		_, err := ask(ctx, client, http.MethodGet, pop, "", http.StatusOK)
		popped <- err
	}()
	_, err = ask(ctx, client, http.MethodPost, here+"/api/v1/push", push, http.StatusCreated)
	return errors.Join(err, <-popped)
}

// ask sends a request and returns the body of an answer of the wanted status.
func ask(ctx context.Context, client *http.Client, method, target, body string, wanted int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("building %s %s: %w", method, target, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err != nil {
		return nil, fmt.Errorf("reading the answer to %s %s: %w", method, target, err)
	}
	if response.StatusCode != wanted {
		return nil, fmt.Errorf("%s %s: status %d: %.200s", method, target, response.StatusCode, raw)
	}
	return raw, nil
}
