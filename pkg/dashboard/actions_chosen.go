package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// maxChosen is the maximum number of dead letters that one form can choose.
const maxChosen = 200

// chosen returns a change of each chosen dead letter.
func chosen(f form, done string, one func(letter form) change) (change, error) {
	letters := f.Values["letter"]
	c := change{done: done}
	switch {
	case len(letters) == 0:
		return c, errors.New("no dead letter is selected: select rows of the list")
	case len(letters) > maxChosen:
		return c, fmt.Errorf("%d dead letters are selected: select at most %d", len(letters), maxChosen)
	}
	for _, text := range letters {
		letter, err := url.ParseQuery(text)
		if err != nil {
			return c, errors.New("the selection cannot be read: load the page again")
		}
		c.each = append(c.each, one(form{letter}))
	}
	return c, nil
}

// redriveChosen delivers the chosen dead letters again.
func redriveChosen(f form) (change, error) {
	return chosen(f, "delivered again", func(letter form) change {
		c, _ := retryMessage(letter) // never fails
		return c
	})
}

// discardChosen deletes the chosen dead letters.
func discardChosen(f form) (change, error) {
	return chosen(f, "deleted", func(letter form) change {
		return onMessage(letter, http.MethodDelete, "/dlq?"+url.Values{"consumerGroup": {letter.Get("group")}}.Encode(), "")
	})
}

// takeEach sends the requests of a change. A refused one does not stop the others.
func (d *Dashboard) takeEach(caller *source.Caller, c *change) (text, back string, err error) {
	var refused error
	done := int64(0)
	for i := range c.each {
		one := &c.each[i]
		var answer any
		if err := d.client.Do(caller, one.method, one.path, one.body, &answer); err != nil {
			refused = err
			continue
		}
		done++
	}
	switch failed := int64(len(c.each)) - done; {
	case done == 0:
		return "", "", refused
	case failed > 0:
		return "", "", sentenceError(fmt.Sprintf("%s %s. %d could not be changed: %s.", page.Plural(done, "dead letter is", "dead letters are"), c.done, failed, errorText(refused)))
	}
	return page.Plural(done, "dead letter is", "dead letters are") + " " + c.done + ".", "", nil
}
