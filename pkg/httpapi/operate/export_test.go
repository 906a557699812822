package operate

import (
	"encoding/json"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Internals that the tests in package operate_test call.
const (
	MaxUnknown = maxUnknown
)

// Configuration is the result of ParseConfigure.
type Configuration struct {
	catalog.Settings
	Warnings       []string
	OptionsInForce []byte
}

// ParseConfigure reads the body of a configure call.
func ParseConfigure(body []byte, defaults queue.Defaults) (Configuration, error) {
	set, err := parseConfigure(body, defaults)
	if err != nil {
		return Configuration{Settings: set.Settings}, err
	}
	options, err := json.Marshal(set.optionsInForce())
	return Configuration{set.Settings, set.warnings(""), options}, err
}
