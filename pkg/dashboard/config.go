package dashboard

// Config is the section "dashboard".
type Config struct {
	// Enabled is true if the server serves the dashboard.
	Enabled bool `mapstructure:"enabled"`
	// ReadOnly disables all actions for all tokens.
	ReadOnly bool `mapstructure:"read_only"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config { return Config{Enabled: true} }
