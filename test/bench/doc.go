// Command bench measures what a stranger would ask first: how many messages a
// second go in and out over HTTP, for batches of 1, 10 and 100, beside the raw
// limit of the database underneath: the plainest INSERT of the same rows by the
// same number of connections, in the same run.
//
//	go run ./test/bench            # or: make bench
//	go run ./test/bench --duration 5s --connections 8 --database-url postgres://...
//
// Measured on 2 cores shared by Postgres 15 (fsync on), server and load, by
// `go run ./test/bench --duration 3s` with --connections 8 (the default) and 100,
// one run each: read the ratios, not the rates. The raw INSERT uses as many
// connections.
//
//	8 connections, 100 partitions, 100-byte payloads, 3s each
//
//	batch  raw INSERT rows/s  push messages/s  push/raw  pop+ack messages/s  pop+ack/raw
//	    1               6835             3568       52%                1584          23%
//	   10              55590            16236       29%                9822          18%
//	  100             115343            46628       40%               39151          34%
//
//	100 connections
//
//	    1               8356            11240      135%                3776          45%
//	   10              67001            46420       69%               18724          28%
//	  100             102434            61052       60%               55571          54%
//
// Before pushes, acks and claims of many callers were committed together, 100
// connections pushed 2,072, 18,093 and 55,278 messages/s, and popped 1,008, 9,803
// and 48,635 (same command, some minutes before).
//
// The raw INSERT has the columns of belfry.message and one unique index. A push
// also keeps the primary key, locks and moves its partitions' rows, looks for
// duplicates, and goes over HTTP; pop+ack is a claim, and an ack whose commit
// waits for the disk. What bounds a push of large batches is the processor of
// Postgres: its statements alone reach 13 microseconds a row for one partition,
// and more the more partitions a flush touches, because the planner may only
// nest loops.
//
// It checks what it measures: every message that was pushed is popped once, in
// order within its partition, or it exits non-zero.
package main
