package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/noun"
)

// Commands returns the commands that speak to a server.
func Commands() []*cobra.Command {
	all := []*cobra.Command{
		newPush(), newPop(), newTail(), newAck(), newExtend(), newTransaction(), newExplain(), newPing(), newMetrics(),
		newApply(), newExport(), newContext(), newCheat(), newTop(), newDemo(),
	}
	all = append(all, noun.Commands()...)
	for _, c := range all {
		c.GroupID = GroupID
		// The flags of the whole program are settings of the server: they do nothing here.
		c.SetUsageTemplate(strings.Replace(c.UsageTemplate(), ".HasAvailableInheritedFlags", "false", 1))
	}
	return all
}

// GroupID is the group of the commands in the help of their parent.
const GroupID = "server"
