package noun

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// queueContents returns a sentence with the contents of the queue in the first argument.
func queueContents(in *verb.Input) (string, error) {
	var found api.QueueGroups
	err := in.Client.Do(in.Cmd.Context(), request.Get(queuePath(in)+"/groups", url.Values{"limit": {"1"}, "fresh": {"true"}}), &found)
	return fmt.Sprintf(" It has %s, %s and %s.", counted(found.Messages.Total, "message"), counted(found.Partitions, "partition"),
		counted(found.DeadLetters, "dead letter")), err
}

// groupContents returns a sentence with the contents of the group in the first argument.
func groupContents(in *verb.Input) (string, error) {
	query := url.Values{"name": {in.Args[0]}, "queue": {in.Flag("queue")}, "limit": {"1000"}, "fresh": {"true"}}
	var queues, partitions, unfinished, letters int64
	for {
		var page api.GroupPage
		if err := in.Client.Do(in.Cmd.Context(), request.Get("/api/v1/groups", query), &page); err != nil {
			return "", err
		}
		for i := range page.Groups {
			g := &page.Groups[i]
			if g.Name != in.Args[0] || in.Flag("queue") != "" && g.QueueName != in.Flag("queue") { // the API compares parts of names
				continue
			}
			queues, partitions, unfinished, letters = queues+1, partitions+g.Partitions, unfinished+g.Lag, letters+g.DeadLetters
		}
		if page.Pagination.Next == nil {
			return fmt.Sprintf(" It has positions in %s of %s, with %s and %s.", counted(partitions, "partition"), counted(queues, "queue"),
				counted(unfinished, "unfinished message"), counted(letters, "dead letter")), nil
		}
		query.Set("cursor", *page.Pagination.Next)
		query.Del("fresh")
	}
}

// seekPreview returns the request that counts the effects of a seek.
func seekPreview(in *verb.Input) client.Request {
	query := seekQuery(in)
	if partition := in.Flag("partition"); partition != "" {
		query.Set("partition", partition)
	}
	return request.Get(groupPath(in)+"/seek", query)
}

// seekEffects returns a sentence with the effects of a seek.
func seekEffects(in *verb.Input) (string, error) {
	var found api.SeekPreview
	err := in.Client.Do(in.Cmd.Context(), seekPreview(in), &found)
	least := ""
	if found.CountsAreLowerBounds {
		least = "at least "
	}
	return fmt.Sprintf(" It receives %s%s again, and skips %s%s. Live leases that end: %d.", least, counted(found.MessagesAgain, "message"), least,
		counted(found.MessagesSkipped, "message"), found.LeasesEnded), err
}

// counted returns a number with its noun.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// saveDeadLetters writes the dead letters of a purge to the file of --save. It returns when the file is on the disk. A dead letter
// that fails after the count may be in the file too. The purge does not delete it.
func saveDeadLetters(in *verb.Input) (err error) {
	name := in.Flag("save")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("creating the file of --save: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriter(file)
	err = exportDeadLetters(in.Session, deadLetterQuery(in, in.Args[0]), func(page []json.RawMessage, _ bool) error {
		return eachLetter(page, func(line []byte) error {
			_, err := out.Write(append(line, '\n'))
			return err
		})
	})
	if err == nil {
		err = errors.Join(out.Flush(), file.Sync())
	}
	if err == nil {
		err = syncFolder(filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w: nothing was deleted", name, err)
	}
	return nil
}

// syncFolder writes the entry of a new file to the disk.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
