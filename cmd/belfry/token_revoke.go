package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

func newTokenRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke [TOKEN or ID]",
		Short: "Make all servers refuse a token",
		Long: `Make all servers refuse a token from now on. The argument is the token, or its id (claim
jti), which the audit and "belfry token inspect" show. Without an argument, the command
reads the token from standard input. The database notifies the servers at once. A server
without a connection to the database refuses the token after it connects again.

A token without an id cannot be revoked. "belfry token create" gives each token an id. Put
an id that has only digits in double quotes: '"42"'.`,
		Example: `  belfry token revoke 0198c7c2-5b1e-7c52-9b5b-0c8f7f4f6a10
  belfry token revoke < token.txt`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := tokenText(cmd, args)
			if err != nil {
				return err
			}
			id, err := revocable(text)
			if err != nil {
				return err
			}
			expiresAt, err := verifiedEnd(cmd, text)
			if err != nil {
				return err
			}
			err = withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn) error { return token.Revoke(ctx, conn, id, expiresAt) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "revoked: %s\n", id)
			return err
		},
	}
}

func newTokenRevokedCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "revoked",
		Short: "List the revoked tokens",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn) error {
				found, err := token.ListRevoked(ctx, conn)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				_, _ = io.WriteString(w, "ID\tREVOKED\tBY\tEXPIRES\n") // Flush returns the error
				for _, t := range found {
					expires := "-"
					if !t.ExpiresAt.IsZero() {
						expires = t.ExpiresAt.UTC().Format(time.RFC3339)
					}
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.ID, t.RevokedAt.UTC().Format(time.RFC3339), t.RevokedBy, expires)
				}
				return w.Flush()
			})
		},
	}
}

// number matches a JSON number. quotedNumber matches an integer between double quotes.
var (
	number       = regexp.MustCompile(`^-?\d+(\.\d+)?([eE][+-]?\d+)?$`)
	quotedNumber = regexp.MustCompile(`^"(\d+)"$`)
)

// revocable returns the id of a token, or the argument if it is an id.
func revocable(text string) (id string, err error) {
	content, err := token.Read(text)
	switch {
	case err != nil && strings.Count(text, ".") == 2:
		return "", errors.New("the token cannot be read: copy the complete token, or name its id")
	case err != nil && (text == "" || !identity.Printable(text)):
		return "", errors.New("name a token, or the id of a token")
	case err != nil && number.MatchString(text):
		return "", fmt.Errorf("%[1]s is a number, but the id of a token (claim jti) is a text: servers accept no token whose id is a number. "+
			`Name the token, or write the id as '"%[1]s"'`, text)
	case err != nil:
		return quotedNumber.ReplaceAllString(text, "$1"), nil
	}
	if id, _ = content.Claims["jti"].(string); id == "" {
		return "", errors.New("the token has no id (claim jti), so it cannot be revoked: replace the key that signed it")
	}
	return id, nil
}

// verifiedEnd returns the expiry time of a token. For an id, and for a token that the configuration does not accept,
// it returns the zero time, so that the revocation is kept for ever. The claims of a refused token may be forged.
func verifiedEnd(cmd *cobra.Command, text string) (time.Time, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return time.Time{}, err
	}
	auth := cfg.Auth
	auth.Enabled = true
	if auth.Validate() != nil {
		return time.Time{}, nil
	}
	verifier, err := token.New(cmd.Context(), auth, nil, zap.NewNop())
	if err != nil {
		return time.Time{}, err
	}
	p, err := verifier.Verify(cmd.Context(), text)
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // revoke accepts such a token too
	}
	return p.ExpiresAt, nil
}

// withDatabase calls do with a connection to the database of the configuration.
func withDatabase(cmd *cobra.Command, do func(ctx context.Context, conn *pgx.Conn) error) error {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	url := cfg.Database.DirectURL()
	if url == "" {
		return errors.New(noDatabase)
	}
	conn, err := postgres.OpenSession(cmd.Context(), url.Reveal(), "belfry token")
	if err != nil {
		return err
	}
	err = do(cmd.Context(), conn)
	return errors.Join(err, conn.Close(context.WithoutCancel(cmd.Context())))
}
