package wire

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// A refusal names the queue, the group and the list of the claim that lacks them.
func TestARefusalNamesTheMissingGrant(t *testing.T) {
	ctx := identity.With(t.Context(), &identity.Principal{Role: identity.Admin, Grants: &identity.Grants{}})
	for _, c := range []struct {
		err  error
		want string
	}{
		{MayRead(ctx, "a"), `read queue "a"; the list read of`},
		{MayPush(ctx, "a"), `push to queue "a"; the list push of`},
		{MayConsume(ctx, "a", "g"), `consume queue "a" as group "g"; the list consume of`},
		{MayAdminister(ctx, "a"), `administer queue "a"; the list admin of`},
	} {
		require.ErrorContains(t, c.err, "Insufficient permissions: the token has no grant to "+c.want+" its claim belfry does not have it")
	}
}
