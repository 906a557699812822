package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	fileName = "spool.db"
	// lockTimeout is the time that open waits for another process to release the file.
	lockTimeout = 2 * time.Second
)

// The buckets of the file. The keys of messages are 8 bytes, big-endian, ascending.
var (
	waitingBucket  = []byte("waiting")
	rejectedBucket = []byte("rejected")
	aboutBucket    = []byte("about")
	// idKey is the key of the id of the spool.
	idKey = []byte("id")
)

// ref identifies a record of the file, with its queue, number of messages and size.
type ref struct {
	key      uint64
	queue    string
	messages int
	bytes    int64
}

// content lists the records of the file.
type content struct {
	id                queue.ID
	waiting, rejected []ref
}

// file is the file of a spool. After an error it can exist without being open. It is safe for
// concurrent use.
type file struct {
	dir string
	// index is changed under mu, after each change of the file.
	index *index

	mu sync.Mutex
	db *bbolt.DB // nil: not open
}

func (f *file) path() string { return filepath.Join(f.dir, fileName) }

// exists reports whether the file exists. It need not be open.
func (f *file) exists() bool {
	_, err := os.Stat(f.path())
	return err == nil
}

// open opens the file, or creates it if it does not exist.
func (f *file) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.openLocked()
}

func (f *file) openLocked() error {
	if f.db != nil {
		return nil
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	db, err := bbolt.Open(f.path(), 0o600, &bbolt.Options{
		Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true,
	})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("another process uses %s: give each instance its own spool.dir", f.path())
	}
	if err != nil {
		return err
	}
	found, err := load(db)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if err := syncDir(f.dir); err != nil {
		return errors.Join(err, db.Close())
	}
	f.db = db
	f.index.reset(found)
	return nil
}

// load creates the missing buckets and returns their records.
func load(db *bbolt.DB) (found content, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		about, err := tx.CreateBucketIfNotExists(aboutBucket)
		if err != nil {
			return err
		}
		if id := about.Get(idKey); id != nil {
			found.id = queue.ID(id)
		} else {
			found.id = queue.NewID()
			if err := about.Put(idKey, found.id[:]); err != nil {
				return err
			}
		}
		if found.waiting, err = refsOf(tx, waitingBucket); err != nil {
			return err
		}
		found.rejected, err = refsOf(tx, rejectedBucket)
		return err
	})
	return found, err
}

// refsOf creates a bucket if it does not exist, and returns its records.
func refsOf(tx *bbolt.Tx, name []byte) (refs []ref, err error) {
	bucket, err := tx.CreateBucketIfNotExists(name)
	if err != nil {
		return nil, err
	}
	err = bucket.ForEach(func(key, value []byte) error {
		r, err := decode(value)
		if err == nil {
			refs = append(refs, ref{binary.BigEndian.Uint64(key), r.Queue, len(r.Items), int64(len(value))})
		}
		return err
	})
	return refs, err
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // an operator names the directory
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// update changes the file in one durable transaction, and then the index. After an error, the content
// of the file is unknown. So update closes the file, and the next use opens it again and builds a new
// index.
func (f *file) update(change func(waiting, rejected *bbolt.Bucket) error, then func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.openLocked(); err != nil {
		return err
	}
	err := f.db.Update(func(tx *bbolt.Tx) error {
		return change(tx.Bucket(waitingBucket), tx.Bucket(rejectedBucket))
	})
	if err != nil {
		return errors.Join(err, f.closeLocked())
	}
	then()
	return nil
}

// add appends records.
func (f *file) add(records []*record) error {
	var added []ref
	return f.update(func(waiting, _ *bbolt.Bucket) (err error) {
		added, err = putAll(waiting, records)
		return err
	}, func() { f.index.add(added) })
}

// putAll appends records to a bucket.
func putAll(bucket *bbolt.Bucket, records []*record) ([]ref, error) {
	refs := make([]ref, len(records))
	for i, r := range records {
		var err error
		if refs[i], err = put(bucket, r); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// put appends a record to a bucket.
func put(bucket *bbolt.Bucket, r *record) (ref, error) {
	bucket.FillPercent = 1 // keys only grow
	key, err := bucket.NextSequence()
	if err != nil {
		return ref{}, err
	}
	return putAt(bucket, key, r)
}

func putAt(bucket *bbolt.Bucket, key uint64, r *record) (ref, error) {
	value, err := r.encode()
	if err != nil {
		return ref{}, err
	}
	return ref{key, r.Queue, len(r.Items), int64(len(value))}, bucket.Put(keyOf(key), value)
}

// progress is the result of storing the first records of a queue.
type progress struct {
	queue string
	// done are the records of which all messages were stored or refused.
	done []ref
	// part is the record after done if some of its messages were stored or refused. rest holds its
	// remaining messages. rest is nil if no message of that record was stored or refused.
	part ref
	rest *record
	// refused are the refused messages, each with its reason.
	refused []*record
}

// settle removes the records in done, replaces part with rest, and appends the refused messages to
// the rejected messages.
func (f *file) settle(p progress) error {
	var rejected []ref
	return f.update(func(waiting, rejects *bbolt.Bucket) (err error) {
		if rejected, err = putAll(rejects, p.refused); err != nil {
			return err
		}
		for _, r := range p.done {
			if err := waiting.Delete(keyOf(r.key)); err != nil {
				return err
			}
		}
		if p.rest != nil {
			p.part, err = putAt(waiting, p.part.key, p.rest)
		}
		return err
	}, func() { f.index.settle(p, rejected) })
}

// retry moves all rejected records to the end of the waiting records. It returns their number.
func (f *file) retry() (int, error) {
	var added []ref
	err := f.update(func(waiting, rejects *bbolt.Bucket) error {
		var records []*record
		err := rejects.ForEach(func(_, value []byte) error {
			r, err := decode(value)
			if err != nil {
				return err
			}
			r.Reason = ""
			records = append(records, r)
			return nil
		})
		if err != nil {
			return err
		}
		if added, err = putAll(waiting, records); err != nil {
			return err
		}
		return empty(rejects)
	}, func() { f.index.retried(added) })
	return len(added), err
}

// discard removes all rejected records. It returns their number.
func (f *file) discard() (n int, err error) {
	err = f.update(func(_, rejects *bbolt.Bucket) error { return empty(rejects) }, func() { n = f.index.retried(nil) })
	return n, err
}

// empty removes all records of a bucket.
func empty(bucket *bbolt.Bucket) error {
	cursor := bucket.Cursor()
	for key, _ := cursor.First(); key != nil; key, _ = cursor.Next() {
		if err := cursor.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// view reads the file.
func (f *file) view(read func(waiting, rejected *bbolt.Bucket) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.openLocked(); err != nil {
		return err
	}
	return f.db.View(func(tx *bbolt.Tx) error { return read(tx.Bucket(waitingBucket), tx.Bucket(rejectedBucket)) })
}

// read returns waiting records.
func (f *file) read(refs []ref) (records []*record, err error) {
	err = f.view(func(waiting, _ *bbolt.Bucket) error {
		for _, wanted := range refs {
			r, err := decode(waiting.Get(keyOf(wanted.key)))
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	return records, err
}

// rejected returns the oldest rejected records, at most limit. It stops at the first record for whose size fits returns
// false.
func (f *file) rejected(limit int, fits func(bytes int) bool) (records []*record, err error) {
	err = f.view(func(_, rejects *bbolt.Bucket) error {
		cursor := rejects.Cursor()
		for key, value := cursor.First(); key != nil && len(records) < limit && fits(len(value)); key, value = cursor.Next() {
			r, err := decode(value)
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	return records, err
}

// removeEmpty closes and removes the file if it has no records.
func (f *file) removeEmpty() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.db == nil || !f.index.empty() {
		return nil
	}
	// The file is removed before it is closed, so that no other process opens it in between.
	err := errors.Join(os.Remove(f.path()), f.closeLocked())
	f.index.reset(content{})
	return err
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closeLocked()
}

func (f *file) closeLocked() error {
	if f.db == nil {
		return nil
	}
	err := f.db.Close()
	f.db = nil
	return err
}

func keyOf(key uint64) []byte { return binary.BigEndian.AppendUint64(nil, key) }
