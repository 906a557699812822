// Package ha tests two Belfry instances on a cluster of three Postgres nodes that Patroni and etcd manage. It starts real
// processes with the files of deploy/patroni. Meanwhile the workload of test/chaos runs. The test kills the primary, switches
// over, and freezes the primary. It measures how long no commit and no push is accepted, and test/chaos/check checks the rules.
//
// The tests need patroni, etcd and Postgres, so they have the build tag installed. Nothing in this folder is part of the server.
//
//	go test -tags installed -v ./test/ha                                    # one kill, one switchover
//	go test -tags installed -v ./test/ha -timeout 1h -args -delay 3s -kills 10 -freezes 2
package ha
