package dashboard

// Config is the section "dashboard".
type Config struct {
	// Enabled serves the dashboard.
	Enabled bool `mapstructure:"enabled"`
	// ReadOnly takes away every action, whatever the token allows.
	ReadOnly bool `mapstructure:"read_only"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config { return Config{Enabled: true} }
