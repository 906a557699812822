// Command edge measures how much some clients slow down the other clients. The measured clients are hostile or unlucky, or
// use large messages or many partitions.
//
//	go run ./test/bench/edge                    # all measures
//	go run ./test/bench/edge trickle inflight   # some
//	go run ./test/bench/edge --partitions 10000 --connections 200 million trickle
//
// It prints one line for each figure: measure, figure, value, limit, and met or BROKEN. The exit code is 1 if a limit is
// broken or a measure failed.
//
// The command starts a private Postgres. It starts the servers as child processes with default settings, so the memory of a
// server does not include the load. The command reads that memory from /proc, which needs Linux.
//
// The measures:
//
//	trickle   2,000 connections send a body at one byte per second, and 2,000 others pop large
//	          messages and do not read the answer: memory, time of other pushes, time of a stop
//	inflight  500 pushes of 2 MiB at the same time: memory, and each message is stored once
//	bigpop    1,000 messages of 1 MiB are popped with batch=10000: size of the answers, memory
//	answers   20 lists of 200 dead letters of 1 MiB are read at the same time: memory, and each
//	          dead letter is listed once
//	poison    200 pops wait for 200 messages, and one message cannot be read: time of the others
//	million   1,000,000 partitions: first pop of a new group, pushes to new partitions during
//	          that pop, heal after a restart, pushes with maxSize
//	skips     a group skips 10 or 1,000,000 dead letters after an unfinished message: times of a
//	          pop and an ack; 9,999 dead letters in one call: times of acks of others
package main
