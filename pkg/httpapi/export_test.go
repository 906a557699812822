package httpapi

import "time"

// Routes returns the route table.
func (s *Server) Routes() []Route { return s.routeTable() }

// SetHeaderTimeout replaces headerTimeout, which also bounds a TLS handshake.
func (s *Server) SetHeaderTimeout(d time.Duration) { s.http.ReadHeaderTimeout = d }
