package apitest

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/rights"
	"github.com/belfry-mq/belfry/pkg/access/token"
)

// RightsCalls are the calls that rightsFake received.
type RightsCalls struct {
	Tokens  []token.Request
	Revoked []token.Revoked
	Grants  []rights.Grant
}

// rightsFake replaces pkg/access/rights.
type rightsFake struct{ *RightsCalls }

func (rightsFake) CanSign() bool { return true }

func (f rightsFake) Create(_ context.Context, wanted token.Request) (text, id string, err error) {
	f.Tokens = append(f.Tokens, wanted)
	return "token", "id", nil
}

func (f rightsFake) Revoke(_ context.Context, id string, expiresAt time.Time) error {
	f.RightsCalls.Revoked = append(f.RightsCalls.Revoked, token.Revoked{ID: id, ExpiresAt: expiresAt})
	return nil
}

func (f rightsFake) Revoked(context.Context) (found []token.Revoked, more bool, err error) {
	return f.RightsCalls.Revoked, false, nil
}

func (f rightsFake) Grants(context.Context) (rights.Grants, error) { return rights.Grants{}, nil }

func (f rightsFake) SetGrant(_ context.Context, g rights.Grant, _ bool) error {
	f.RightsCalls.Grants = append(f.RightsCalls.Grants, g)
	return nil
}
