package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxTokenBytes is the maximum number of bytes that inspect and revoke read.
const maxTokenBytes = 64 << 10

func newTokenCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, inspect and revoke tokens",
		Long: `Make, inspect and revoke tokens (JWT) without an identity provider. The section auth of
the configuration sets the issuer, the audience, and the names of claims and roles.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCmd(), newTokenInspectCmd(), newTokenRevokeCmd(), newTokenRevokedCmd())
	return cmd
}

func newTokenCreateCmd() *cobra.Command {
	var subject, role, keyFile, keyID string
	var lifetime time.Duration
	var grants func() (*identity.Grants, error)
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Print a new token",
		Long: `Print a new token. auth.secret signs it (HS256), or the private key of --signing-key: a
PEM file with an RSA, ECDSA P-256 or Ed25519 key. With a private key, the server needs
only the public key (auth.public_key). The token is a secret: everyone who has it can use
its role.

--read, --push, --consume and --admin limit the role to queues. Each flag takes a pattern
in which * matches any text. You can repeat each flag. A token with at least one of these
flags permits nothing else. --consume takes QUEUE:GROUP, or QUEUE for every group.`,
		Example: `  belfry token create --subject billing --role read-write --ttl 720h
  belfry token create --subject shop --role read-write --push 'orders.*' --consume 'orders.*:billing'
  openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout
  belfry token create --subject ops --role admin --ttl 1h --signing-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			named, ok := identity.RoleNamed(role)
			if !ok {
				return fmt.Errorf("--role is %q: it must be read-only, read-write or admin", role)
			}
			if lifetime < 0 || lifetime%time.Second != 0 {
				return fmt.Errorf("--ttl is %s: it must be whole seconds, or 0 for a token that does not expire", lifetime)
			}
			granted, err := grants()
			if err != nil {
				return err
			}
			return printToken(cmd, token.Request{Subject: subject, Role: named, Grants: granted, Lifetime: lifetime, KeyID: keyID}, keyFile)
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "who uses the token; it is stored with each message as producerSub")
	cmd.Flags().StringVar(&role, "role", "", "read-only, read-write or admin")
	cmd.Flags().DurationVar(&lifetime, "ttl", 24*time.Hour, "how long the token is valid; 0: it does not expire")
	grants = grantFlags(cmd)
	cmd.Flags().StringVar(&keyFile, "signing-key", "", "file with a private key; without it auth.secret signs")
	cmd.Flags().StringVar(&keyID, "key-id", "", "id of the key (kid), for a server with several keys")
	for _, name := range []string{"subject", "role"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

// printToken signs a token and prints it. The key is in keyFile, or is auth.secret if keyFile is empty.
func printToken(cmd *cobra.Command, request token.Request, keyFile string) error {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	key, err := signingKey(keyFile, cfg.Auth)
	if err != nil {
		return err
	}
	text, err := token.Sign(cfg.Auth, request, key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// grantFlags adds the flags for grants. The returned function returns nil if the user sets none of these flags.
func grantFlags(cmd *cobra.Command) (grants func() (*identity.Grants, error)) {
	var g identity.Grants
	for _, flag := range []struct {
		name, usage string
		into        *[]string
	}{
		{"read", "read the queues that match this pattern, with their messages and groups", &g.Read},
		{"push", "push to the queues that match this pattern", &g.Push},
		{"consume", "consume the queues that match this pattern, or QUEUE:GROUP", &g.Consume},
		{"admin", "read, push and consume, and configure and delete the queues that match this pattern", &g.Admin},
	} {
		cmd.Flags().StringArrayVar(flag.into, flag.name, nil, flag.usage)
	}
	return func() (*identity.Grants, error) {
		if len(g.Read)+len(g.Push)+len(g.Consume)+len(g.Admin) == 0 {
			return nil, nil
		}
		if err := g.Check(); err != nil {
			return nil, fmt.Errorf("the grants of the token: %w", err)
		}
		return &g, nil
	}
}

// signingKey returns the key in file, or auth.secret if file is empty.
func signingKey(file string, cfg token.Config) (token.SigningKey, error) {
	if file == "" {
		if cfg.Secret == "" {
			return token.SigningKey{}, errors.New("there is no key: set auth.secret, or name a file with --signing-key")
		}
		return token.SecretKey(cfg.Secret.Reveal()), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return token.SigningKey{}, fmt.Errorf("reading the signing key: %w", err)
	}
	return token.ParseSigningKey(text)
}

func newTokenInspectCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect [TOKEN]",
		Short: "Print what a token says, and whether the server would accept it",
		Long: `Print the header and the claims of a token, and whether a server with this
configuration would accept it. Without an argument, the command reads the token from
standard input, so that the shell does not store it in its history. The exit code is 1 if
the server would refuse the token.`,
		Example: `  belfry token inspect < token.txt`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := tokenText(cmd, args)
			if err != nil {
				return err
			}
			content, err := token.Read(text)
			if err != nil {
				return err
			}
			shown, err := json.MarshalIndent(content, "", "  ")
			if err != nil {
				return fmt.Errorf("encoding the token: %w", err)
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), string(shown)); err != nil {
				return err
			}
			return judge(cmd, text)
		},
	}
}

// tokenText returns the token in args, or reads it from standard input.
func tokenText(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 {
		return token.FromHeader(args[0]), nil
	}
	stdin := cmd.InOrStdin()
	session.NoteInput(cmd, stdin)
	read, err := io.ReadAll(io.LimitReader(stdin, maxTokenBytes))
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	return token.FromHeader(strings.TrimSpace(string(read))), nil
}

// judge prints that a server accepts the token, or returns an error if a server does not accept it.
func judge(cmd *cobra.Command, text string) error {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	auth := cfg.Auth
	auth.Enabled = true
	if err := auth.Validate(); err != nil {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "not verified: %v\n", err)
		return err
	}
	verifier, err := token.New(cmd.Context(), auth, nil, zap.NewNop())
	if err != nil {
		return err
	}
	p, err := verifier.Verify(cmd.Context(), text)
	var refused *queue.Error
	if errors.As(err, &refused) {
		return fmt.Errorf("the token is refused: %s", refused.Message)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "accepted: subject %q, role %s\n", p.Subject, p.Role)
	return err
}
