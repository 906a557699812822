// Command bench measures what a stranger would ask first: how many messages a
// second go in and out over HTTP, for batches of 1, 10 and 100, beside the raw
// limit of the database underneath: the plainest INSERT of the same rows by the
// same number of connections, in the same run.
//
//	go run ./test/bench            # or: make bench
//	go run ./test/bench --duration 5s --connections 8 --database-url postgres://...
//
// Measured on 2 cores shared by Postgres 15 (fsync on), server and load, by
// `go run ./test/bench --duration 4s`, while other work ran on the machine (load
// 2 to 4): read the ratios, not the rates.
//
//	8 connections, 100 partitions, 100-byte payloads, 4s each
//
//	batch  raw INSERT rows/s  push messages/s  push/raw  pop+ack messages/s  pop+ack/raw
//	    1               5313             1866       35%                1042          20%
//	   10              48095            15912       33%                8235          17%
//	  100             132436            45996       35%               38613          29%
//
// The raw INSERT has the columns of belfry.message and one unique index. A push
// also keeps the primary key, locks and moves its partitions' rows, looks for
// duplicates, and goes over HTTP; pop+ack is a claim, and an ack whose commit
// waits for the disk. Each request is a transaction of its own: nothing is
// committed together with others yet.
//
// It checks what it measures: every message that was pushed is popped once, in
// order within its partition, or it exits non-zero.
package main
