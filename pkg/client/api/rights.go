package api

import "time"

// Rights is the answer of GET /api/v1/rights.
type Rights struct {
	CanCreateTokens bool           `json:"canCreateTokens"` // The server has `auth.secret`, so it can create tokens.
	RevokedTokens   []RevokedToken `json:"revokedTokens"`   // The revoked tokens, the last revoked token first. At most 1,000.
	MoreTokens      bool           `json:"moreTokens"`      // There are more revoked tokens.
	PushIsChecked   bool           `json:"pushIsChecked"`   // Roles of the database need a grant to push.
	PopIsChecked    bool           `json:"popIsChecked"`    // Roles of the database need a grant to consume.
	Grants          []SQLGrant     `json:"grants"`          // The grants of roles of the database. At most 1,000.
	MoreGrants      bool           `json:"moreGrants"`      // There are more grants.
}

// RevokedToken is a token that all servers refuse.
type RevokedToken struct {
	ID        string     `json:"id"`        // The id of the token (`jti`).
	ExpiresAt *time.Time `json:"expiresAt"` // The end of the token. Null if it does not end, or if its end is not known.
	RevokedBy string     `json:"revokedBy"` // The role of the database that revoked it. The audit has the person.
	RevokedAt time.Time  `json:"revokedAt"`
}

// SQLGrant lets a role of the database push to queues, or consume queues as groups.
type SQLGrant struct {
	Kind          string    `json:"kind"`          // `push` or `consume`.
	Role          string    `json:"role"`          // The role of the database.
	Queue         string    `json:"queue"`         // A pattern for the queues. `*` matches any text.
	ConsumerGroup *string   `json:"consumerGroup"` // A pattern for the groups. Null if the kind is `push`.
	GrantedBy     string    `json:"grantedBy"`     // The role of the database that gave the grant. The audit has the person.
	GrantedAt     time.Time `json:"grantedAt"`
}

// CreatedToken is the answer of POST /api/v1/tokens.
type CreatedToken struct {
	Token     string    `json:"token"`     // The token. The server does not keep it.
	ID        string    `json:"id"`        // The id of the token (`jti`), with which it can be revoked.
	ExpiresAt time.Time `json:"expiresAt"` // The end of the token.
}

// TokenRevoked is the answer of POST /api/v1/tokens/revoke.
type TokenRevoked struct {
	Revoked bool   `json:"revoked"`
	ID      string `json:"id"` // The id of the token (`jti`).
}

// GrantChanged is the answer of POST /api/v1/sql-grants and of POST /api/v1/sql-grants/revoke.
type GrantChanged struct {
	Success       bool    `json:"success"`
	Kind          string  `json:"kind"`
	Role          string  `json:"role"`
	Queue         string  `json:"queue"`
	ConsumerGroup *string `json:"consumerGroup"`
	Granted       bool    `json:"granted"` // The grant is in force.
}
