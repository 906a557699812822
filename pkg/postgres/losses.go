package postgres

// Losses returns a channel that receives after a connection was lost, and after
// SignalLoss. The last commits over that connection may lack the work that follows a
// commit. One signal may stand for several losses.
func (p *Pool) Losses() <-chan struct{} { return p.losses }

// ForwardLossesTo makes this pool report its lost connections to other instead of
// itself. other must not forward. Call it once.
func (p *Pool) ForwardLossesTo(other *Pool) {
	p.forwardTo.Store(other)
	other.sourcesMu.Lock()
	defer other.sourcesMu.Unlock()
	other.sources = append(other.sources, p)
}

// ReportBrokenConnection signals a loss and makes TakeBroken return true. A connection
// of this instance, or of an instance that died, broke: no wake may have followed its
// last commits.
func (p *Pool) ReportBrokenConnection() {
	if other := p.forwardTo.Load(); other != nil {
		other.ReportBrokenConnection()
		return
	}
	p.broken.Store(true)
	p.SignalLoss()
}

// TakeBroken reports whether ReportBrokenConnection was called since the previous call
// of TakeBroken.
func (p *Pool) TakeBroken() bool { return p.broken.Swap(false) }

// SignalLoss makes Losses receive. It does not block.
func (p *Pool) SignalLoss() {
	select {
	case p.losses <- struct{}{}:
	default: // a pending signal covers this one
	}
}
