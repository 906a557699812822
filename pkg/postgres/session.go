package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// OpenSession opens one connection, for a command. It has the settings of the pool. The url must not
// lead through a pooler in transaction mode: ErrTransactionPooled. Errors do not contain the password.
func OpenSession(ctx context.Context, url, application string) (*pgx.Conn, error) {
	cfg, err := ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", DirectKeys, err)
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = application
	}
	cfg.OnNotice = noteUnconfirmed
	conn, err := Connect(ctx, cfg, DirectKeys)
	if err != nil {
		return nil, err
	}
	err = ConfigureSession(ctx, conn)
	if err == nil {
		_, err = conn.PgConn().Exec(ctx, planSettings).ReadAll()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the connection: %w", err), conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}
