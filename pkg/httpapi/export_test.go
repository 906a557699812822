package httpapi

import "time"

// Least returns the right without its flags.
func (r Right) Least() Right { return r.least() }

// SetHeaderTimeout replaces headerTimeout. It also limits a TLS handshake.
func (s *Server) SetHeaderTimeout(d time.Duration) { s.http.ReadHeaderTimeout = d }

// QueenRoutes returns the routes that exist only for clients of Queen MQ.
func QueenRoutes(s *Server) []Route { return s.queenRoutes(s.observes()) }
