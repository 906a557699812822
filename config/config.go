package config

import (
	_ "embed"
	"errors"
	"fmt"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/engine/sweep"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Config holds all settings, one section per package.
type Config struct {
	Database   postgres.Config       `mapstructure:"database"`
	HTTP       httpapi.Config        `mapstructure:"http"`
	Dispatch   dispatch.Config       `mapstructure:"dispatch"`
	Batch      batch.Config          `mapstructure:"batch"`
	SmartPoll  dispatch.SmartPoll    `mapstructure:"smart_poll"`
	Listen     listen.Config         `mapstructure:"listen"`
	Defaults   queue.Defaults        `mapstructure:"defaults"`
	Sweep      sweep.Config          `mapstructure:"sweep"`
	Retention  sweep.Retention       `mapstructure:"retention"`
	Audit      audit.Config          `mapstructure:"audit"`
	Spool      spool.Config          `mapstructure:"spool"`
	History    history.Config        `mapstructure:"history"`
	Live       live.Config           `mapstructure:"live"`
	Problems   problem.Config        `mapstructure:"problems"`
	Metrics    httpapi.MetricsConfig `mapstructure:"metrics"`
	Encryption seal.Config           `mapstructure:"encryption"`
	Auth       token.Config          `mapstructure:"auth"`
	Dashboard  dashboard.Config      `mapstructure:"dashboard"`
	Log        Log                   `mapstructure:"log"`

	// sources maps each key whose value is not the default to the source of the value. Load
	// writes the map, Print reads it.
	sources map[string]string
	// ignored has the variables of Queen MQ that are set and have no effect.
	ignored []string
	// unknown has the variables with the prefix BELFRY_ that are set and do not name a setting.
	unknown []string
}

// Log is the section "log".
type Log struct {
	// Level is the lowest level that is written: debug, info, warn or error.
	Level string `mapstructure:"level"`
	// Format is console (short lines for people) or json (one object per line).
	Format string `mapstructure:"format"`
}

// DefaultLog returns the values of config/belfry.yaml.
func DefaultLog() Log { return Log{Level: "info", Format: "console"} }

// Validate returns an error for every invalid value.
func (l Log) Validate() error {
	var errs []error
	switch l.Level {
	case "debug", "info", "warn", "error":
	default:
		errs = append(errs, fmt.Errorf("log.level is %q: it must be debug, info, warn or error", l.Level))
	}
	switch l.Format {
	case "console", "json":
	default:
		errs = append(errs, fmt.Errorf("log.format is %q: it must be console or json", l.Format))
	}
	return errors.Join(errs...)
}

// Default returns the default settings.
func Default() Config {
	return Config{
		Database:  postgres.DefaultConfig(),
		HTTP:      httpapi.DefaultConfig(),
		Dispatch:  dispatch.DefaultConfig(),
		Batch:     batch.DefaultConfig(),
		SmartPoll: dispatch.DefaultSmartPoll(),
		Listen:    listen.DefaultConfig(),
		Defaults:  queue.DefaultDefaults(),
		Sweep:     sweep.DefaultConfig(),
		Retention: sweep.DefaultRetention(),
		Auth:      token.DefaultConfig(),
		Audit:     audit.DefaultConfig(),
		Spool:     spool.DefaultConfig(),
		History:   history.DefaultConfig(),
		Live:      live.DefaultConfig(),
		Problems:  problem.DefaultConfig(),
		Metrics:   httpapi.DefaultMetricsConfig(),
		Dashboard: dashboard.DefaultConfig(),
		Log:       DefaultLog(),
	}
}

// Validate checks every section, and joins the errors.
func (c Config) Validate() error {
	return errors.Join(
		c.Database.Validate(),
		c.HTTP.Validate(),
		c.Dispatch.Validate(),
		c.Batch.Validate(),
		c.SmartPoll.Validate(),
		c.Listen.Validate(),
		c.Defaults.Validate(),
		c.Sweep.Validate(),
		c.Retention.Validate(),
		c.Audit.Validate(),
		c.Spool.Validate(),
		c.History.Validate(),
		c.Live.Validate(),
		c.Problems.Validate(),
		c.Metrics.Validate(),
		c.Encryption.Validate(),
		c.Auth.Validate(),
		c.Log.Validate(),
	)
}

//go:embed belfry.yaml
var reference string

// Reference returns config/belfry.yaml: every key with its default and its meaning. It is a
// valid configuration file.
func Reference() string { return reference }
