package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/noun"
)

// Commands returns the commands that send requests to a server.
func Commands() []*cobra.Command {
	all := []*cobra.Command{
		newPush(), newPop(), newTail(), newAck(), newExtend(), newTransaction(), newExplain(), newPing(), newMetrics(),
		newApply(), newExport(), newContext(), newCheat(), newTop(), newDemo(),
	}
	all = append(all, noun.Commands()...)
	for _, c := range all {
		c.GroupID = GroupID
		// The help of these commands does not list the persistent flags of belfry, because those are settings of the
		// server.
		c.SetUsageTemplate(strings.Replace(c.UsageTemplate(), ".HasAvailableInheritedFlags", "false", 1))
	}
	return all
}

// GroupID is the id of the group of these commands in the help of belfry.
const GroupID = "server"
