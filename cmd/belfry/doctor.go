package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/cli"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
)

// examineDatabase examines the configured database without a server and returns the report as JSON.
func examineDatabase(cmd *cobra.Command, noServer string, wanted bool) ([]byte, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s; and the configuration is wrong: %w", noServer, err)
	}
	if cfg.Database.DirectURL() == "" {
		return nil, cli.ErrNoDatabase
	}
	sealer, err := seal.New(cfg.Encryption)
	if err != nil {
		return nil, err
	}
	examined := app.DoctorConfig(cfg, sealer)
	examined.NoServer, examined.ServerWanted = noServer, wanted
	return json.Marshal(doctor.New(examined).Run(cmd.Context()))
}
