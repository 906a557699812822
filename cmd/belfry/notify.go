package main

import (
	"net"
	"os"
)

// States of a service that systemd knows (sd_notify).
const (
	stateReady    = "READY=1"
	stateStopping = "STOPPING=1"
)

// notifyManager tells the service manager a state of this process. systemd names its socket in NOTIFY_SOCKET if the unit has
// Type=notify. Without that variable, notifyManager does nothing.
func notifyManager(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	_ = conn.Close() // the datagram is sent
	return err
}
