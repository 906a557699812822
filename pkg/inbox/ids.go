package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlAdvanceIDs = sql.Query("inbox/ids_advance")

// AdvanceIDs moves the id sequences past the ids in use. Sequences fall behind if rows were inserted
// without them: by logical replication, or by a copy of single tables. AdvanceIDs is called at the
// start and by each new sequencer, because a replaced database makes an instance take over.
//
// It takes as long as a query of a few indexes, or until ctx ends. It returns the error of the
// database. If the role lacks the right to run it, it logs the missing right and returns nil.
func AdvanceIDs(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, log *zap.Logger,
) error {
	var advanced []string
	err := conn.QueryRow(ctx, sqlAdvanceIDs).Scan(&advanced)
	if postgres.SQLState(err) == postgres.InsufficientPrivilege {
		log.Warn("the id sequences were not checked, because the right is missing: "+
			"GRANT EXECUTE ON FUNCTION belfry.advance_ids() to the role of this server", zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("checking the id sequences: %w", err)
	}
	if len(advanced) > 0 {
		log.Warn("the id sequences were behind ids in use; they were moved past them", zap.Strings("tables", advanced))
	}
	return nil
}
