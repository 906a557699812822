package httpapi

import "time"

// Least returns the right without what is added to it.
func (r Right) Least() Right { return r.least() }

// SetHeaderTimeout replaces headerTimeout, which also bounds a TLS handshake.
func (s *Server) SetHeaderTimeout(d time.Duration) { s.http.ReadHeaderTimeout = d }

// QueenRoutes are the routes that exist only because Queen MQ has them.
func QueenRoutes(s *Server) []Route { return s.queenRoutes(s.observes()) }
