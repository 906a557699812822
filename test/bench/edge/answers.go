package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// largeLists lists are read at the same time, and each is read listRounds times.
	largeLists, listRounds = 20, 5
	listLetters            = 200
)

// letterPage is the part of a list of dead letters that a reader needs.
type letterPage struct {
	Messages   []struct{ TransactionID string }
	Pagination struct{ Next *string }
}

// sqlDeadLetters makes a dead letter of each message.
const sqlDeadLetters = `WITH g AS (INSERT INTO belfry.consumer_group (queue_id, name) SELECT q.id, 'g' FROM belfry.queue q WHERE q.name = 'big' RETURNING id)
	INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
	SELECT m.partition_id, m.seq, g.id, 3, 'no' FROM g, belfry.message m`

// measureAnswers reads 20 lists of large dead letters at the same time. The server may use at most 1.25 times
// http.max_inflight_bytes of memory. Each list must be answered with 200 or refused with 503. A client that follows the
// cursors must get each dead letter once.
func measureAnswers(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.pushBig(ctx, listLetters); err != nil {
		return err
	}
	if _, err := t.conn.Exec(ctx, sqlDeadLetters); err != nil {
		return fmt.Errorf("making dead letters: %w", err)
	}
	if err := t.restart(ctx); err != nil { // so that the memory of the pushes is not counted
		return err
	}
	end := t.watchMemory(ctx)
	var mu sync.Mutex
	var all sync.WaitGroup
	var given, refused, other int
	var strange error
	for range largeLists {
		all.Go(func() {
			for range listRounds {
				status, err := t.list(ctx, "limit=1000", nil)
				mu.Lock()
				switch status {
				case http.StatusOK:
					given++
				case http.StatusServiceUnavailable:
					refused++
				default:
					other, strange = other+1, err
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	out.Memory(fmt.Sprintf("%d lists of dead letters of 1 MiB at once: memory", largeLists), end(), inflightBudget*5/4)
	out.Note("answered with 200, with 503", fmt.Sprintf("%d, %d", given, refused))
	out.Never("other answers, or no answer", other)
	if strange != nil {
		out.Note("such as", strange.Error())
	}
	seen, pages, err := t.listAll(ctx)
	if err != nil {
		return err
	}
	out.Limit("dead letters of all pages, each once", fmt.Sprint(seen), fmt.Sprint(listLetters), seen == listLetters)
	out.Note("pages", fmt.Sprint(pages))
	return nil
}

// list reads a list of dead letters into page and returns the status. page may be nil.
func (t *trial) list(ctx context.Context, query string, page *letterPage) (int, error) {
	target := t.URL("/api/v1/dlq")
	target.RawQuery = query
	var text bytes.Buffer
	resp, err := t.Do(ctx, http.MethodGet, target, nil, &text)
	if err == nil && resp.Status == http.StatusOK && page != nil {
		err = json.Unmarshal(text.Bytes(), page, json.MatchCaseInsensitiveNames(true))
	}
	return resp.Status, err
}

// listAll follows the cursors of the list and counts the dead letters. If a page is refused, it reads the page again,
// because memory of finished answers may still be in use.
func (t *trial) listAll(ctx context.Context) (letters, pages int, err error) {
	seen, query := map[string]bool{}, url.Values{"limit": {"1000"}}
	for {
		var page letterPage
		status, err := t.list(ctx, query.Encode(), &page)
		if status == http.StatusServiceUnavailable {
			err = load.Pause(ctx, joinInterval)
			pages--
		}
		if err != nil {
			return 0, 0, err
		}
		pages++
		for _, m := range page.Messages {
			if seen[m.TransactionID] {
				return 0, 0, fmt.Errorf("dead letter %s is listed twice", m.TransactionID)
			}
			seen[m.TransactionID] = true
		}
		if status == http.StatusOK && page.Pagination.Next == nil {
			return len(seen), pages, nil
		}
		if page.Pagination.Next != nil {
			query.Set("cursor", *page.Pagination.Next)
		}
	}
}

// pushBig pushes n messages of 1 MiB to the queue big. Their transaction ids are 0 to n-1.
func (t *trial) pushBig(ctx context.Context, n int) error {
	payload := `"` + strings.Repeat("x", bigMessage) + `"`
	for begin := 0; begin < n; begin += bigBatch {
		var items []string
		for i := begin; i < min(begin+bigBatch, n); i++ {
			items = append(items, fmt.Sprintf(`{"queue":"big","transactionId":"%d","payload":%s}`, i, payload))
		}
		var answer bytes.Buffer
		if _, err := t.Do(ctx, http.MethodPost, t.URL("/api/v1/push"), []byte(`{"items":[`+strings.Join(items, ",")+`]}`), &answer); err != nil {
			return err
		}
	}
	return nil
}
