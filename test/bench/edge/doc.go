// Command edge measures what hostile or unlucky clients, large messages and many partitions cost
// the others.
//
//	go run ./test/bench/edge                    # all measures
//	go run ./test/bench/edge trickle inflight   # some
//	go run ./test/bench/edge --partitions 10000 --connections 200 million trickle
//
// It prints one line for each figure: measure, what, figure, limit, met or BROKEN. The exit code is
// 1 if a limit is broken or a measure failed.
//
// The command starts a private Postgres and the servers as child processes with default settings,
// so the memory of a server does not include the load. It is read from /proc, which needs Linux.
//
// The measures:
//
//	trickle   2,000 connections send a body at one byte per second, and 2,000 pop large messages
//	          and read nothing: memory, time of other pushes, time of a stop
//	inflight  500 pushes of 2 MiB at the same time: memory, and each message stored once
//	bigpop    1,000 messages of 1 MiB are popped with batch=10000: size of the answers, memory
//	answers   20 lists of 200 dead letters of 1 MiB are read at the same time: memory, and each listed once
//	poison    200 pops wait for 200 messages, one of which cannot be read: time of the others
//	million   1,000,000 partitions: first pop of a new group, pushes to new partitions meanwhile,
//	          heal after a restart, pushes with maxSize
//	skips     a group skips 10 or 1,000,000 dead letters behind an unfinished message: times of a pop
//	          and an ack; 9,999 dead letters in one call: times of acks of others
package main
