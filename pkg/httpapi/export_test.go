package httpapi

// Routes returns the route table.
func (s *Server) Routes() []Route { return s.routeTable() }
